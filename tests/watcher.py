"""Somebody who watches a playground: used by the tests of those of models and of worlds."""


def watch(ground, seconds: float, each: float) -> None:
    """All players run for so long, a tick of `each` seconds at a time, with all the work done that is asked for."""
    for player in ground.players:
        player.play(True)
    for _ in range(round(seconds / each)):
        while ground.work():
            pass
        for player in ground.players:
            player.tick(each)
