"""The report in a real browser: it plays, scrubs, zooms, fits a phone, is dark and light, and loses no impact."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from browser import needs_browser

import carom
from carom.bodies.contact_table import meetings
from carom.drawing import dots, line, mesh
from carom.report.html import report

METHOD = carom.VariationalCollision(carom.Trapezoidal())
EVIL = "</script><script>window.hacked = 1</script><b>'\"&"


@pytest.fixture(scope="module")
def long_run():
    """10⁵ steps, more than 10⁴ impacts."""
    return carom.models.particle(gravity=800.0).solve(METHOD, num_steps=100_000)


@pytest.fixture(scope="module")
def long_page(long_run, tmp_path_factory) -> Path:
    return long_run.report(tmp_path_factory.mktemp("report") / "long.html")


def _evil_run(shape=None):
    def lagrangian(q, v, params):
        return 0.5 * v @ v - params[EVIL] * q[2]

    def box(q):
        corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1.0)]) + q
        return [mesh(corners, [[0, 1, 3], [0, 3, 2], [4, 5, 7]]), dots([q]), line([[0, 0, 0], [3, 0, 0]], fixed=True)]

    space = carom.Euclidean(3, ["x" + EVIL, "y", "z"])
    system = carom.System(lagrangian, [carom.Contact(lambda q: q[2], name="floor" + EVIL)], space=space)
    method = carom.VariationalCollision(carom.Left())
    params = {EVIL: 9.81}
    return carom.solve(
        system,
        method,
        [0.0, 0, 1],
        [1.0, 0, 0],
        dt=0.02,
        num_steps=100,
        params=params,
        name=EVIL,
        shape=box if shape is None else shape,
    )


def _text(browser, name):
    return browser.run(f"document.getElementById({name!r}).textContent")


def _body(browser):
    """Where the plot of the motion draws what moves: its last trace."""
    return browser.run("(d => [d.x[0], d.y[0]])(document.getElementById('motion').data.at(-1))")


def _scrub(browser, share):
    script = f"(s => {{s.value = {round(1e6 * share)}; s.dispatchEvent(new Event('input'))}})(document.getElementById('scrub'))"
    browser.run(script)
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@needs_browser
def test_it_plays_and_scrubs(browser, long_page, long_run):
    browser.open(long_page)
    assert _text(browser, "clock") == "t = 0" and _body(browser) == [0.0, 1.0]
    browser.click("#play")
    browser.wait("Number(document.getElementById('clock').textContent.slice(4)) > 5")
    browser.click("#play")
    stopped = _text(browser, "clock")
    assert stopped == _text(browser, "clock") != "t = 0"  # it stays where it was stopped
    _scrub(browser, 0.5)
    assert _text(browser, "clock") == "t = 500"
    i = np.searchsorted(long_run.t, 500.0)
    x, y = _body(browser)
    assert x == pytest.approx(long_run.q[i, 0], rel=1e-6)  # a picture is in single precision
    assert -1e-3 <= y <= 1.001
    count = int(np.sum(long_run.impacts.t <= 500.0))
    assert _text(browser, "happening").startswith(f"impact {count} of {len(long_run.impacts)}: floor")
    browser.click("#after")
    t = long_run.impacts.t[count]
    assert _text(browser, "clock") == f"t = {float(f'{t:.6g}'):g}"
    assert browser.complaints == []


@needs_browser
def test_it_stays_fluid(browser, long_page, long_run):
    assert len(long_run.impacts) > 10_000 and long_page.stat().st_size < 12e6
    browser.open(long_page)
    script = """(() => { const s = document.getElementById('scrub'), start = performance.now();
        for (let k = 0; k < 200; k++) { s.value = 5000 * k; s.dispatchEvent(new Event('input')); }
        return (performance.now() - start) / 200; })()"""
    assert browser.run(script) < 33  # ms: thirty pictures a second, on a machine that does other things too; 1.8 when it does not
    zoom = """(async () => { const start = performance.now();
        await Plotly.relayout('series', {'xaxis.range': [100, 101]}); return performance.now() - start; })()"""
    assert browser.run(zoom) < 3000  # ms


@needs_browser
def test_no_impact_disappears(browser, long_page, long_run):
    browser.open(long_page)
    stems = "document.getElementById('series').data.at(-1).x.filter((x, k) => k % 3 === 0)"
    seen = np.array(browser.run(stems))
    width = (long_run.t[-1] - long_run.t[0]) / 1800  # two intervals for each of 900 curve points
    after = np.clip(np.searchsorted(seen, long_run.impacts.t), 1, len(seen) - 1)
    nearest = np.minimum(abs(seen[after] - long_run.impacts.t), abs(seen[after - 1] - long_run.impacts.t))
    assert nearest.max() <= width  # none farther from a mark than the screen resolves
    browser.run("Plotly.relayout('series', {'xaxis.range': [100, 110]}).then(() => 0)")
    browser.wait(f"{stems}.length < 1000")
    within = long_run.impacts.t[(long_run.impacts.t >= 100) & (long_run.impacts.t <= 110)]
    np.testing.assert_allclose(browser.run(stems), within, rtol=1e-12)  # close up, all of them one by one
    lines = browser.run("document.getElementById('series').data[0].x.length / 3")
    assert lines == len(within)
    browser.click("#last")
    last = browser.run("[...document.querySelector('#impacts tbody').lastElementChild.cells].map(c => c.textContent)")
    assert int(last[0]) == len(long_run.impacts) and float(last[1]) == pytest.approx(long_run.impacts.t[-1], rel=1e-8)


@needs_browser
def test_hover_tells_values_and_a_click_goes_there(browser, tmp_path):
    run = carom.models.star().solve(METHOD, num_steps=400)
    browser.open(run.report(tmp_path / "star.html"), height=1700)
    box = browser.run(
        "(b => [b.left, b.top, b.width, b.height])(document.querySelector('#series .nsewdrag').getBoundingClientRect())"
    )
    x, y = box[0] + 0.75 * box[2], box[1] + 0.3 * box[3]
    browser.mouse(x - 5, y)
    browser.mouse(x, y)
    browser.wait("document.querySelectorAll('#series .hoverlayer .hovertext').length > 0")
    browser.mouse(x, y, click=True)
    browser.wait("document.getElementById('clock').textContent !== 't = 0'")
    t = float(_text(browser, "clock")[4:])
    assert t == pytest.approx(0.75 * run.t[-1], abs=0.02)
    cursor = browser.run("document.getElementById('cursor').getBoundingClientRect().left")
    assert cursor + 1 == pytest.approx(box[0] + box[2] * t / run.t[-1], abs=1)  # pixel
    browser.screenshot(tmp_path / "hover.png")
    row = browser.run("document.querySelector('#impacts tr.now').cells[0].textContent")
    assert int(row) == np.sum(run.impacts.t <= t)
    browser.size(390, 844)  # turned upright, with the cursor far to the right
    browser.wait("window.innerWidth === 390 && document.documentElement.scrollWidth <= 390")
    browser.run("document.querySelector('#impacts tbody tr').click()")
    assert float(_text(browser, "clock")[4:]) == pytest.approx(run.impacts.t[0], rel=1e-5)
    assert browser.complaints == []


@needs_browser
def test_it_fits_a_phone_in_the_dark(browser, long_page, tmp_path):
    browser.open(long_page, width=390, height=844, dark=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run("document.querySelector('#motion svg').getBoundingClientRect().width") <= 390
    background = "getComputedStyle(document.body).backgroundColor"
    assert browser.run(background) == "rgb(22, 24, 27)"
    browser.click("#theme")
    assert browser.run(background) == "rgb(255, 255, 255)"
    browser.wait("document.getElementById('motion').layout.paper_bgcolor === '#ffffff'")
    browser.size(1200, 900)  # turned to a desk
    browser.wait("document.querySelector('#motion svg').getBoundingClientRect().width > 900")
    browser.click("#theme")  # and back, for the next page: the choice is remembered
    assert len(browser.screenshot(tmp_path / "phone.png")) > 10_000
    assert browser.complaints == []


@needs_browser
def test_space_and_what_people_type(browser, tmp_path):
    """A body in space, drawn with WebGL; and names that try to be code."""
    run = _evil_run()
    browser.open(run.report(tmp_path / "evil.html"))
    assert browser.run("window.hacked === undefined && document.title") == EVIL
    assert _text(browser, "happening") == f"{len(run.impacts)} impacts ahead"
    kinds = browser.run("document.getElementById('motion').data.map(d => d.type)")
    assert sorted(kinds) == ["mesh3d", "scatter3d", "scatter3d"]
    _scrub(browser, 1.0)
    browser.wait("document.getElementById('motion').data.find(d => d.type === 'mesh3d').x[0] > 1.9")
    assert browser.run("document.querySelectorAll('#series b').length") == 0
    cells = browser.run("[...document.querySelectorAll('.facts th')].map(c => c.textContent)")
    assert EVIL in cells
    assert [
        c for c in browser.complaints if "GL Driver" not in c and "willReadFrequently" not in c
    ] == []  # hints of the software GL
    assert all(r.startswith(("file:", "data:", "blob:")) for r in browser.requests)  # nothing from anywhere


@needs_browser
def test_control_complaints_are_heard(browser, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text("<body data-ready=yes><script>setTimeout(() => { throw new Error('boo') }); console.error('hoo')</script>")
    browser.open(page)
    browser.wait("true")
    browser.run("new Promise(done => setTimeout(done, 50))")
    assert "boo" in str(browser.complaints) and "hoo" in str(browser.complaints)


def test_a_report_says_how_the_run_was_made(tmp_path):
    run = carom.models.particle().solve(METHOD, num_steps=300)
    page = report(run)
    assert page.count('<h1 id="title">particle</h1>') == 1 and "3 impacts" in page
    for word in ("VariationalCollision", "Trapezoidal()", "non-penetration", "gravity", "9.81", "jax", carom.__version__):
        assert word in page
    assert "momentum of x" in page and "src=" not in page.split("<script>")[0] and "hidden" not in page.split("<main>")[1][:120]
    again = report(carom.load(run.save(tmp_path / "run.zarr")))  # a run without functions makes the same page
    cut = lambda text: json.loads(text.split('id="data">')[1].split("</script>")[0])  # noqa: E731
    assert cut(again)["panels"] == cut(page)["panels"] and cut(again)["film"]["points"] == cut(page)["film"]["points"]


def test_a_run_without_picture_or_contacts_has_a_report(tmp_path):
    def lagrangian(q, v):
        return 0.5 * v @ v - 0.5 * q @ q

    run = carom.solve(carom.System(lagrangian), carom.Variational(carom.Left()), [1.0] * 10, [0.0] * 10, dt=0.1, num_steps=20)
    page = report(run, title="ten springs")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["film"] is None and [p["title"] for p in data["panels"]] == ["(E − E₀) / |E₀|", "coordinates", "momenta"]
    assert len(data["panels"][1]["series"]) == 8 and "8 liveliest of 10" in page


@needs_browser
@pytest.mark.parametrize("width", [1200, 400])
def test_the_legend_of_eight_curves_lies_on_no_curve(browser, tmp_path, width):
    chain = carom.System(
        lambda q, v: 0.5 * v @ v - 0.5 * q @ q, space=carom.Euclidean(8, [f"link {i}" for i in range(8)], units="m")
    )
    run = carom.solve(chain, METHOD, list(range(1, 9)), [0.0] * 8, dt=0.1, num_steps=50)
    browser.open(run.report(tmp_path / "eight.html"), width, 1000)
    boxes = """(s => [...document.querySelectorAll('#series ' + s)].map(e => e.getBoundingClientRect())
        .filter(b => b.width > 0).map(b => [b.left, b.top, b.right, b.bottom]))"""
    legends = browser.run(boxes + "('.infolayer > [class^=legend]')")
    curves = browser.run(boxes + "('.scatterlayer .trace path.js-line')")
    assert len(legends) == 2 and len(curves) >= 17
    apart = lambda a, b: a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]  # noqa: E731
    assert all(apart(a, b) for a in legends for b in curves)
    (above, below) = sorted(legends, key=lambda box: box[1])
    assert below[1] - above[3] >= 8  # pixels: half a line, so that one list does not read as the end of the other
    names = browser.run("[...document.querySelectorAll('.facts th')].map(e => e.innerHTML)")
    assert "max_<wbr>impacts_<wbr>per_<wbr>step" in names  # a name in a narrow column breaks after its signs
    assert not apart(curves[1], curves[2])  # the control: curves of one panel do overlap
    assert browser.complaints == []


@needs_browser
def test_small_balls_have_light_and_are_seen_to_turn(browser, tmp_path):
    """Also where a triangle is smaller than a square millimetre: plotly leaves such faces without light unless it is told not to.
    A round body is painted in two shades, a box in one; the contacts of a world are told from the first step on."""
    world = carom.World(gravity=(0, 0, -9.81))
    world.fix(carom.shapes.HalfSpace())
    world.add(carom.shapes.Sphere(0.01), density=1000, position=(0, 0, 0.01), name="ball")
    world.add(carom.shapes.Box(0.01, 0.01, 0.01), density=1000, position=(0.05, 0, 0.005), name="box")
    run = world.solve(dt=0.005, num_steps=20)
    page = run.report(tmp_path / "world.html")
    data = json.loads(Path(page).read_text().split('id="data">')[1].split("</script>")[0])
    contacts = next(panel for panel in data["panels"] if panel["title"] == "contacts")["series"][0]
    assert np.frombuffer(base64.b64decode(contacts["y"]), "f4").min() >= 1  # both stand on the table
    browser.open(Path(page), 700, 700)
    solid = "document.getElementById('motion')._fullData.find(t => t.facecolor)"
    assert browser.run(f"[{solid}.lighting.facenormalsepsilon, {solid}.lighting.vertexnormalsepsilon]") == [0, 0]
    assert browser.run(f"new Set({solid}.facecolor).size") == 3  # two of the ball, one of the box


@needs_browser
def test_the_next_impact_is_where_two_bodies_meet(browser, tmp_path):
    """Dominoes that slide down each other strike in every step: the next impact was the next step."""
    run = carom.models.dominoes(count=3).solve(num_steps=60, progress=False)
    met = run.contacts.t[meetings(run.contacts, run.steps)] - run.dt  # in a report impacts fall on the start of their step
    browser.open(Path(run.report(tmp_path / "dominoes.html")), 700, 700)
    seen = []
    for _ in range(3):
        browser.click("#after")
        seen.append(_text(browser, "clock"))
    assert seen == [f"t = {float(f'{t:.6g}'):g}" for t in np.unique(met)[:3]]
    browser.click("#before")
    assert _text(browser, "clock") == seen[1]
    assert np.unique(run.impacts.t)[2] - run.dt < met[2]  # control: the third step with an impact comes earlier
