"""Many contacts in one problem per step."""
