"""What a person looks at while it happens: a page on this machine, with the motion to watch, to turn and to change."""
