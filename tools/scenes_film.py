"""The film at the head of the README: four scenes side by side, docs/scenes.gif. `python tools/scenes_film.py`"""

from pathlib import Path

import numpy as np
from PIL import Image

import carom
from carom.report.body_film import film_pictures

WIDE, HIGH, COUNT = 210, 140, 40  # of one scene, in pixels; pictures
PAPER = (250, 250, 248)
SCENES = {"dice": {"count": 4}, "dominoes": {"count": 8}, "newtons_cradle": {}, "tippe_top": {}}


def pictures(name: str, **arguments: int) -> list[Image.Image]:
    """A scene, run to its end, in pictures of equal size that stand on the lower edge."""
    scene = carom.models.SCENES[name](**arguments)
    run = scene.solve(save_every=max(1, scene.num_steps // 150))
    framed = []
    for picture in film_pictures(scene.film(run), COUNT, width=WIDE, view=scene.view):
        picture = picture.convert("RGB")
        picture.thumbnail((WIDE, HIGH))
        frame = Image.new("RGB", (WIDE, HIGH), PAPER)
        frame.paste(picture, ((WIDE - picture.width) // 2, HIGH - picture.height))
        framed.append(frame)
    return framed


def main() -> None:
    scenes = [pictures(name, **arguments) for name, arguments in SCENES.items()]
    film = [
        Image.fromarray(np.concatenate([np.asarray(p) for p in moment], axis=1)).quantize(48)
        for moment in zip(*scenes, strict=True)
    ]
    path = Path(__file__).resolve().parent.parent / "docs" / "scenes.gif"
    film[0].save(path, save_all=True, append_images=film[1:], duration=[80] * (COUNT - 1) + [1200], loop=0, optimize=True)
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
