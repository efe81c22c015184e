"""The pages of the store: a map that is drawn, a slider over cycles, hostile names and values."""

import os
import re
import shutil
import subprocess
import sys
from urllib.parse import quote

from playwright.sync_api import expect

# As the test creates it.
HOSTILE = '<img src=x onerror="document.title=1">'


def psql(address, statement):
    """The rows of a statement by PostgreSQL's protocol; None where psql is not installed."""
    if not shutil.which("psql"):
        assert os.environ.get("TIDEMILL_CLIENTS") != "required", "psql is not installed"
        print("skipped: psql is not installed", file=sys.stderr)
        return None
    host, port = address.rsplit(":", 1)
    command = ["psql", "-X", "-A", "-t", "-h", host, "-p", port, "-U", "me", "-d", "db", "-c", statement]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return [line.split("|") for line in told.splitlines()]


def colors(page):
    """How many colours the map has."""
    return page.evaluate(
        """() => { const canvas = document.querySelector('.map canvas');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const colors = new Set();
        for (let at = 0; at < data.length; at += 4)
            if (data[at + 3] === 255) colors.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
        return colors.size; }"""
    )


def rows(page):
    return page.evaluate(
        """() => [...document.querySelectorAll('main table tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"""
    )


def slide(page, cycle):
    """Moves the slider to a cycle, and waits until the page shows it."""
    page.get_by_role("slider", name="as of cycle").evaluate(
        "(slider, cycle) => { slider.value = cycle; slider.dispatchEvent(new Event('input', { bubbles: true })); }",
        cycle,
    )
    expect(page.locator("main table caption")).to_contain_text(re.compile(f"as of cycle {cycle}$"))


def store(page, home, postgres, picture):
    page.goto(home + "#/store")
    page.get_by_role("link", name="places").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("places")
    expect(page.get_by_role("img", name="Map of places as of cycle")).to_be_visible()
    expect(page.get_by_role("img", name="Rows over time")).to_be_visible()
    # The ground, the lines, the text, and several densities.
    assert colors(page) > 6, colors(page)
    picture(page, "store")
    slider = page.get_by_role("slider", name="as of cycle")
    oldest, newest = int(slider.get_attribute("min")), int(slider.get_attribute("max"))
    assert newest > oldest, (oldest, newest)
    expect(page.locator(".cycles")).to_contain_text(f"Cycles {oldest} to {newest} can be read")

    # An earlier cycle: the table has what psql gives for it, and the map that many rows.
    counts = set()
    for cycle in (oldest, (oldest + newest) // 2, newest):
        slide(page, cycle)
        counts.add(page.locator(".numbers dd").first.inner_text())
        statement = page.locator("code.long").inner_text()
        assert f"AS OF CYCLE {cycle}" in statement, statement
        expected = psql(postgres, statement)
        shown = rows(page)
        assert shown and (expected is None or shown == expected), (cycle, shown[:2], expected[:2])
        total = psql(postgres, f"SELECT count(*) FROM places AS OF CYCLE {cycle}")
        if total:
            expect(page.get_by_role("img", name=f"as of cycle {cycle}: {total[0][0]} rows")).to_be_visible()
    assert len(counts) > 1, f"all cycles have as many rows: {counts}"
    picture(page, "store-earlier")

    # By keyboard: one cycle back, and the map moved and shown as a whole again.
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("main table caption")).to_contain_text(re.compile(f"as of cycle {newest - 1}$"))
    page.get_by_role("group", name="Map:").focus()
    page.keyboard.press("+")
    expect(page.locator("main table caption")).to_contain_text("of what is chosen above")
    expect(page.get_by_role("button", name="Everything")).to_be_enabled()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Everything")).to_be_disabled()
    # A part of the time: fewer rows on the map.
    page.get_by_label("from", exact=True).focus()
    page.keyboard.press("PageUp")
    expect(page.locator("main table caption")).to_contain_text("of what is chosen above")

    page.get_by_role("button", name="Open in the editor").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Editor")
    assert f"AS OF CYCLE {newest - 1}" in page.get_by_label("A statement").input_value()


def hostile(page, home):
    """Names and values from others are text, and rows without a place are counted."""
    page.goto(home + "#/store/" + quote(HOSTILE, safe=""))
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.get_by_text("60 rows without a place are not shown")).to_be_visible()
    expect(page.get_by_role("columnheader", name="<b>bold</b>")).to_be_visible()
    expect(page.get_by_role("cell", name="<script>document.title=2</script>").first).to_be_visible()
    # A value of ten megabytes does not reach the page.
    expect(page.get_by_role("cell", name="(10000000 bytes)").first).to_be_visible()
    assert page.evaluate("document.body.innerHTML.length") < 1_000_000
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    assert page.title().startswith("Tidemill"), page.title()

    page.goto(home + "#/store/nothing")
    expect(page.get_by_text("No row has come yet")).to_be_visible()
    page.goto(home + "#/store/nobody")
    expect(page.get_by_role("alert")).to_contain_text("No materialized view nobody runs")
    page.goto(home + "#/store/%E0%A4%A")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queries")


def completion(page, home):
    page.goto(home + "#/editor")
    statement = page.get_by_label("A statement")
    statement.fill("")
    statement.focus()
    offers = page.get_by_role("listbox", name="Completions")
    page.keyboard.type("SELECT dig")
    expect(offers.get_by_role("option", name="digit bigint, digits")).to_be_visible()
    page.keyboard.press("Escape")
    expect(offers).to_have_count(0)
    # Relations after FROM, also before a letter is typed.
    statement.fill("")
    page.keyboard.type("SELECT p.x FROM ")
    expect(offers.get_by_role("option", name="places")).to_be_visible()
    page.keyboard.type("pla")
    expect(offers.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(statement).to_have_value("SELECT p.x FROM places")
    expect(statement).to_be_focused()
    # Columns after an alias; arrows choose, Enter takes.
    statement.fill("SELECT * FROM places AS p WHERE p")
    page.keyboard.press("End")
    page.keyboard.type(".")
    expect(offers.get_by_role("option")).to_have_count(5)
    page.keyboard.press("ArrowDown")
    assert statement.get_attribute("aria-activedescendant") == "offer-1"
    page.keyboard.press("Enter")
    expect(statement).to_have_value("SELECT * FROM places AS p WHERE p.at")
    # A name that is not a plain word is quoted; within quotes nothing is proposed.
    statement.fill("SELECT 1 FROM ")
    page.keyboard.press("Control+Space")
    expect(offers.get_by_text('"<img src=x onerror=""document.title=1"">"')).to_be_visible()
    page.keyboard.press("Escape")
    statement.fill("SELECT 'dig")
    page.keyboard.press("Control+Space")
    page.keyboard.type("i")
    expect(statement).to_have_value("SELECT 'digi")
    expect(offers).to_have_count(0)

    # The map of an answer.
    statement.fill("SELECT x, y FROM places LIMIT 4000")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Map").click()
    expect(page.get_by_role("img", name="Map of the answer: 4000 rows")).to_be_visible()
    assert colors(page) > 6, colors(page)
