"""The pages for whoever operates a server: what limits each query, its plan, the journal, the log. Arguments: address for HTTP, folder for
screenshots."""

import os
import re
import sys

from playwright.sync_api import expect, sync_playwright

address, folder = sys.argv[1:3]
home = f"http://{address}/"
wrong = []  # what must not happen on any page
PATHS = ("#/", "#/query/stuck", "#/gateways", "#/journal", "#/logs")


def watch(page):
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(home) else wrong.append(request.url))


def picture(page, name):
    page.screenshot(path=os.path.join(folder, name + ".png"), full_page=True)


def limits(page):
    """The culprit of each query is named, and what waits for it is not."""
    page.goto(home)
    for query, culprit in (("stuck", "stuck"), ("costly", "compute"), ("silent", "nobody"), ("easy", "nothing")):
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=query, exact=True))
        expect(row.locator("td[data-label='limited by']")).to_contain_text(culprit)
    picture(page, "limits")

    page.goto(home + "#/query/stuck")
    expect(page.locator("p.limit")).to_contain_text(re.compile(r"Limited by stuck\. This sink has committed nothing for .* wait"))
    expect(page.locator(".graph .limiting")).to_have_count(1)
    expect(page.locator(".graph .limiting")).to_contain_text("limits the query")
    # Back pressure is drawn before the culprit, and nowhere else.
    expect(page.locator(".graph path.pressed")).to_have_count(1)
    picture(page, "stuck")

    page.goto(home + "#/query/costly")
    expect(page.locator("p.limit")).to_contain_text(re.compile(r"Limited by compute.*sha512"))
    expect(page.locator(".graph .limiting")).to_contain_text("compute")
    picture(page, "costly")

    page.goto(home + "#/query/silent")
    expect(page.locator("p.limit")).to_contain_text("Limited by nobody. No row has come from this source for")
    page.goto(home + "#/query/easy")
    expect(page.get_by_text("Nothing limits it. The most work has")).to_be_visible()
    expect(page.locator(".graph .limiting")).to_have_count(0)
    expect(page.locator(".graph .busiest")).to_contain_text("the most work")


LOOK = """
    async () => {
        const { limit } = await import('/limit.js');
        const part = (name, kind, busy_ms, by_worker_ms) => ({ name, kind, partitions: 64, busy_ms, by_worker_ms, running_ms: 0, rows_in: 200, rows_out: 10 });
        const look = (seconds) => ({
            state: 'running', workers: 4, lag_cycles: 0, lag_ms: 0, elapsed_ms: 1000 * seconds, sources: [
                { name: 'a', rows: 100 * seconds, ended: false, watermark_s: null },
                { name: 'b', rows: 100 * seconds, ended: false, watermark_s: null }],
            sinks: [{ name: 'out', cycles_waiting: 1, idle_ms: 3 }, { name: 'more', cycles_waiting: 0, idle_ms: 0 }],
            dataflow: { edges: [[0, 2], [1, 2], [2, 3], [2, 4], [3, 5]], parts: [part('a', 'source'), part('b', 'source'), part('sum', 'operator', 40 * seconds, [10, 10, 10, 10].map((ms) => ms * seconds)),
                part('top', 'operator', 4 * seconds, [1, 1, 1, 1].map((ms) => ms * seconds)), part('out', 'sink'), part('more', 'sink')] },
        });
        const looks = Array.from({ length: 12 }, (_, second) => look(second + 1));
        const change = (look, second) => { CHANGE; };
        looks.forEach((look, second) => change(look, second + 1));
        const found = limit(looks);
        return found && [found.isLimit, found.index, found.name, found.why];
    }
"""


def rules(page):
    """The rules at their edges, with numbers that no real query gives on demand."""
    page.goto(home)
    for change, expected in (
        ("", (False, 2, "sum", "busy 1 % of the time")),
        # A worker that has most rows, while three wait.
        ("look.dataflow.parts[2].by_worker_ms = [900 * second, 10 * second, 10 * second, 10 * second]; look.dataflow.parts[2].busy_ms = 930 * second", (True, 2, "sum", "few of its 64 partitions")),
        # All workers are busy.
        ("look.dataflow.parts[3].by_worker_ms = [900, 900, 900, 900].map(ms => ms * second); look.dataflow.parts[3].busy_ms = 3600 * second", (True, 3, "top", "busy 91 % of the time")),
        # In its first long cycle, nothing is measured yet.
        ("look.dataflow.parts[3].running_ms = 1000 * second", (True, 3, "top", "working on one cycle for 12 s")),
        # A sink that does nothing is to blame, and not the operator that has most work.
        ("look.sinks[1] = { name: 'more', cycles_waiting: 1, idle_ms: 9000 }", (True, 5, "more", "nothing for 9 s, while 1 cycle waits")),
        # One that is slow all the time, but not one that was behind for a moment.
        ("look.sinks[0].cycles_waiting = 40", (True, 4, "out", "40 cycles wait")),
        ("look.sinks[0].cycles_waiting = second === 12 ? 40 : 0", (False, 2, "sum", "")),
        # Sources: silent, ended, behind in event time.
        ("look.sources.forEach((source) => { source.rows = 7; })", (True, 0, "a", "No row has come")),
        ("look.sources.forEach((source) => { source.rows = 7; source.ended = true; })", (False, 2, "sum", "")),
        ("look.sources[0].watermark_s = 1000; look.sources[1].watermark_s = 900", (True, 1, "b", "Results wait for this source")),
        ("look.sources[0].watermark_s = 1000; look.sources[1].watermark_s = 999", (False, 2, "sum", "")),
        # Rows that a part took and has not finished: neither is the source silent, nor is a later part to blame.
        ("look.sources.forEach((source) => { source.rows = 200; }); look.lag_cycles = 3; look.lag_ms = 4000", (True, 2, "sum", "came 4 s ago, and it has 200 rows")),
        ("look.sources.forEach((source) => { source.rows = 100; }); look.dataflow.parts[3].rows_in = 4; look.lag_cycles = 3; look.lag_ms = 4000", (True, 3, "top", "it has 6 rows")),
        ("look.sources.forEach((source) => { source.rows = 100; }); look.lag_cycles = 1; look.lag_ms = 20", (False, 2, "sum", "")),
        ("look.state = 'ended'", None),
    ):
        found = page.evaluate(LOOK.replace("CHANGE", change))
        if expected is None:
            assert found is None, (change, found)
        else:
            assert tuple(found[:3]) == expected[:3] and expected[3] in found[3], (change, found)


def plan(page):
    page.goto(home + "#/query/costly")
    text = page.locator("pre.plan")
    expect(text).to_contain_text("output costly")
    # As EXPLAIN ANALYZE: what each part has done.
    expect(text).to_contain_text(re.compile(r"% of the time, .* rows in"))
    expect(text).to_contain_text("events answered")
    page.goto(home + "#/query/split")
    measured = page.get_by_role("table").filter(has_text="Processor time for each row")
    expect(measured.first).to_contain_text("ns")
    picture(page, "split")


def gateways(page):
    """Without gateways, everything enters at the server itself."""
    page.get_by_role("link", name="Gateways").click()
    own = page.get_by_role("region", name="The server itself")
    expect(own).to_contain_text("answers")
    expect(own.locator("td[data-label='query']").filter(has_text="costly").first).to_be_visible()
    expect(page.get_by_text("enters at a process of its own")).to_be_visible()
    picture(page, "gateways-none")


def journal(page):
    page.get_by_role("link", name="Journal").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Journal")
    source = page.get_by_role("row").filter(has=page.get_by_role("cell", name=re.compile(r"^lines-\d+$")))
    expect(source).to_contain_text("kept")
    expect(source.locator("td[data-label='segments']")).to_have_text("1")
    snapshot = page.get_by_role("row").filter(has=page.locator("td[data-label='snapshot of cycle']"))
    expect(snapshot).to_contain_text("kept")
    expect(snapshot.locator("td[data-label='took']")).to_contain_text("s")
    picture(page, "journal")


def logs(page):
    page.get_by_role("link", name="Logs").click()
    message = page.get_by_role("cell").filter(has_text="HTTP is served")
    expect(message.first).to_be_visible()
    table = page.get_by_role("table")
    expect(table).to_contain_text("snapshot taken")
    # It is live: the log continues with the next snapshot. The newest line is the first.
    newest = page.locator("table.log tbody tr").first
    expect(newest).not_to_have_text(newest.text_content())
    picture(page, "logs")
    page.get_by_label("with the text").fill("http is SERVED")
    expect(table).not_to_contain_text("snapshot taken")
    expect(message.first).to_be_visible()
    page.get_by_label("at least").select_option("ERROR")
    expect(page.locator("table.log tbody tr")).to_have_count(0)
    page.get_by_label("at least").select_option("INFO")
    page.get_by_label("with the text").fill("")
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_role("button", name="Hold")).to_have_attribute("aria-pressed", "true")


# The rules that matter most of those that axe has: names, labels, headers of tables, one heading, order of headings, contrast of texts.
CHECKS = """
    () => {
        const problems = [];
        const seen = (one) => one.checkVisibility() && !one.closest('.unseen');
        const named = (one) => one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length;
        for (const one of document.querySelectorAll('a, button, select, input, textarea, svg[role], [role=img], [role=region]'))
            if (!named(one)) problems.push('no name: ' + one.outerHTML.slice(0, 120));
        if (document.querySelectorAll('h1').length !== 1) problems.push('not one h1');
        let level = 1;
        for (const one of document.querySelectorAll('h1, h2, h3, h4')) {
            const own = Number(one.tagName[1]);
            if (own > level + 1) problems.push('a heading is left out before ' + one.textContent);
            level = own;
        }
        for (const table of document.querySelectorAll('table'))
            if (!table.closest('.uplot') && !table.querySelector('th')) problems.push('a table without headers');
        const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
        if (new Set(ids).size !== ids.length) problems.push('an id twice');
        if (!document.documentElement.lang || !document.querySelector('main') || !document.querySelector('nav[aria-label]')) problems.push('landmarks');
        const light = (color) => {
            const [r, g, b] = color.match(/[\\d.]+/g).map((part) => part / 255).map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (one) => {
            for (; one; one = one.parentElement) {
                const color = getComputedStyle(one).backgroundColor;
                if (!/, 0\\)$|transparent/.test(color)) return color;
            }
            return 'rgb(255, 255, 255)';
        };
        for (const one of document.querySelectorAll('main *, header *')) {
            const own = [...one.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
            if (!own || !seen(one) || one.closest('svg, .behind, textarea')) continue;
            const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
            if ((a + 0.05) / (b + 0.05) < 4.5) problems.push(`contrast ${((a + 0.05) / (b + 0.05)).toFixed(2)}: ` + one.outerHTML.slice(0, 120));
        }
        return [...new Set(problems)];
    }
"""


def accessible(page, name):
    for path in PATHS + ("#/store", "#/editor"):
        page.goto(home + path)
        page.wait_for_selector("main table, textarea, main .panel")
        problems = page.evaluate(CHECKS)
        assert not problems, (name, path, problems)


def keyboard(page):
    """The first stop leads past the header, then come the pages in their order; each begins at its heading."""
    page.goto("about:blank")
    page.goto(home)
    page.wait_for_selector("main table")
    names = []
    for _ in range(7):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent"))
    assert names == ["To the content", "Queries", "Store", "Editor", "Gateways", "Journal", "Logs"], names
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Journal")
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def narrow(page):
    for path in PATHS:
        page.goto(home + path)
        page.wait_for_selector("main table")
        page.wait_for_timeout(1500)
        picture(page, "phone-operate" + path.replace("/", "-").replace("#", ""))
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} px too wide"


def paint(browser):
    """How long the first page takes: told, not asserted. Its bytes are asserted, as they travel."""
    page = browser.new_page()
    sizes = []
    page.on("response", lambda response: sizes.append(int(response.headers.get("content-length", 0))))
    page.goto(home)
    page.wait_for_selector("main table")
    first_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    assert 10_000 < sum(sizes) < 200_000, sizes
    print(f"first contentful paint after {first_ms} ms, {sum(sizes)} bytes in {len(sizes)} answers", file=sys.stderr)
    page.close()


with sync_playwright() as playwright:
    program = os.environ.get("TIDEMILL_CHROMIUM", "/usr/bin/chromium")
    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    expect.set_options(timeout=60_000)
    paint(browser)
    for scheme in ("dark", "light"):
        page = browser.new_page(color_scheme=scheme, viewport={"width": 1280, "height": 800})
        page.set_default_timeout(60_000)
        watch(page)
        if scheme == "dark":
            rules(page)
            limits(page)
            plan(page)
            gateways(page)
            journal(page)
            logs(page)
            keyboard(page)
        else:
            for path in PATHS:
                page.goto(home + path)
                page.wait_for_selector("main table")
                page.wait_for_timeout(1500)
                picture(page, "light" + path.replace("/", "-").replace("#", ""))
        accessible(page, scheme)
        page.close()
    phone = browser.new_page(color_scheme="light", viewport={"width": 375, "height": 740})
    phone.set_default_timeout(60_000)
    watch(phone)
    narrow(phone)
    browser.close()
assert not wrong, wrong
print("done")
