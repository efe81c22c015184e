"""Uses the console as a person does, in a headless Chromium. Arguments: address for HTTP, address for
PostgreSQL's protocol, folder for screenshots."""

import os
import sys
from urllib.parse import quote

from playwright.sync_api import expect, sync_playwright

from stores import HOSTILE, completion, hostile, store

address, postgres, folder = sys.argv[1:4]
home = f"http://{address}/"
wrong = []  # what must not happen on any page


def watch(page):
    """Collects errors, refused content, and requests to anybody else."""
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(home) else wrong.append(request.url))


def picture(page, name):
    page.screenshot(path=os.path.join(folder, name + ".png"), full_page=True)


def is_drawn(page):
    """Whether the canvas of a plot has anything on it besides its axes' colours."""
    return page.evaluate(
        """() => { const canvas = document.querySelector('.plot canvas');
        if (!canvas) return false;
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const colors = new Set();
        for (let at = 0; at < data.length; at += 4)
            if (data[at + 3] === 255) colors.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
        return colors.size > 1; }"""
    )


def pages(page):
    loaded = []
    page.on("response", lambda response: loaded.append(int(response.headers.get("content-length", 0))))
    page.goto(home)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="digits"))
    expect(row).to_contain_text("running")
    assert 10_000 < sum(loaded) < 200_000, loaded
    expect(page.get_by_role("row").filter(has=page.get_by_role("link", name="waves"))).to_contain_text("ended")
    picture(page, "queries")

    # By keyboard alone: a link, and its page begins at its heading.
    page.get_by_role("link", name="digits").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("digits")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(page.get_by_role("img", name="Dataflow")).to_contain_text("the most work")
    expect(page.get_by_text("Nothing limits it. The most work has")).to_be_visible()
    expect(page.locator(".numbers")).to_contain_text("within 5 s")
    page.wait_for_function("() => document.querySelectorAll('.plot canvas').length > 0")
    page.wait_for_timeout(1500)
    picture(page, "query")


def editor(page):
    page.get_by_role("link", name="Editor").click()
    statement = page.get_by_label("A statement")
    statement.fill("SELECT value, y FROM waves ORDER BY value")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("cell", name="299", exact=True)).to_be_visible()
    expect(page.get_by_role("table")).to_contain_text("300 rows")
    picture(page, "editor-table")
    page.get_by_role("button", name="Plot").click()
    expect(page.get_by_role("img", name="y over value, 300 points")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.plot canvas')")
    page.wait_for_timeout(300)
    assert is_drawn(page), "the plot is empty"
    picture(page, "editor-plot")

    # Digits that a number of JavaScript would lose, and text that is not code.
    page.get_by_role("button", name="Table").click()
    statement.fill("SELECT 9007199254740993 AS large, '<b>bold</b>' AS text, CAST(NULL AS BIGINT) AS none")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("cell", name="9007199254740993")).to_be_visible()
    expect(page.get_by_role("cell", name="<b>bold</b>")).to_be_visible()
    expect(page.get_by_role("cell", name="NULL")).to_be_visible()

    # An error at its place.
    statement.fill("SELECT value,\n  valeu FROM waves")
    page.get_by_role("button", name="Run").click()
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("valeu")
    expect(page.locator("pre.place")).to_have_text("  valeu FROM waves\n  ^")
    assert statement.get_attribute("aria-invalid") == "true"
    assert page.evaluate("document.activeElement.selectionStart") == len("SELECT value,\n  ")
    picture(page, "editor-error")

    # An answer that changes is followed, and stopped.
    statement.fill("SELECT value % 3 AS rest, count(*) AS n FROM sequence(rate => 100) GROUP BY 1")
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_role("table")).to_contain_text("3 rows")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Run")).to_be_enabled()

    # The text stays while another page is looked at.
    page.get_by_role("link", name="Queries").click()
    page.get_by_role("link", name="Editor").click()
    assert "value % 3" in statement.input_value()


def names(page):
    """Everything that can be used has a name."""
    for path in ("#/", "#/query/digits", "#/store", "#/store/places", "#/editor"):
        page.goto(home + path)
        page.wait_for_selector("main table, textarea")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('a, button, select, input, textarea, svg[role], [role=img], [role=region]')]
            .filter(one => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length))
            .map(one => one.outerHTML)"""
        )
        assert not nameless, nameless


def narrow(page):
    for path, name in (
        ("#/", "queries"),
        ("#/query/digits", "query"),
        ("#/store", "stores"),
        ("#/store/places", "store"),
        ("#/store/" + quote(HOSTILE, safe=""), "hostile"),
        ("#/editor", "editor"),
    ):
        page.goto(home + path)
        page.wait_for_selector("main table, textarea")
        page.wait_for_timeout(1500)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        picture(page, "phone-" + name)
        assert wide <= 0, f"{path} is {wide} px too wide"


with sync_playwright() as playwright:
    program = os.environ.get("TIDEMILL_CHROMIUM", "/usr/bin/chromium")
    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    page = browser.new_page(color_scheme="dark", viewport={"width": 1280, "height": 800})
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    watch(page)
    pages(page)
    editor(page)
    completion(page, home)
    store(page, home, postgres, picture)
    hostile(page, home)
    names(page)
    phone = browser.new_page(color_scheme="light", viewport={"width": 375, "height": 740})
    phone.set_default_timeout(60_000)
    watch(phone)
    narrow(phone)
    browser.close()
# A statement that is wrong is answered with 400, which the browser notes.
wrong = [text for text in wrong if "400 (Bad Request)" not in text]
assert not wrong, wrong
print("done")
