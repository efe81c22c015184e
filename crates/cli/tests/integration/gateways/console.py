"""The console's page of gateways. Arguments: address for HTTP, the process of the gateway g1, folder for screenshots."""

import os
import signal
import sys

from playwright.sync_api import expect, sync_playwright

address, process, folder = sys.argv[1:4]
home = f"http://{address}/"
wrong = []  # what must not happen on the page


def watch(page):
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(home) else wrong.append(request.url))


def gateway(page, name):
    return page.get_by_role("region", name=name, exact=True)


with sync_playwright() as playwright:
    program = os.environ.get("TIDEMILL_CHROMIUM", "/usr/bin/chromium")
    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    expect.set_options(timeout=60_000)
    page = browser.new_page(color_scheme="dark", viewport={"width": 1280, "height": 900})
    watch(page)
    page.goto(home + "#/gateways")
    for name in ("g0", "g1"):
        one = gateway(page, name)
        expect(one.locator(".badge")).to_have_text("answers")
        # Ten reports in each of five requests.
        expect(one.locator("td[data-label='rows in']").first).to_have_text("50")
        expect(one.locator("td[data-label='view']").first).to_have_text("recent")
        # A rate needs two looks.
        expect(one.locator("td[data-label='rows/s']").first).to_have_text("0")
    page.screenshot(path=os.path.join(folder, "gateways.png"), full_page=True)
    os.kill(int(process), signal.SIGSTOP)
    try:
        expect(gateway(page, "g1").locator(".badge")).to_have_text("away")
        expect(gateway(page, "g1")).to_contain_text("does not answer")
        expect(gateway(page, "g0").locator(".badge")).to_have_text("answers")
        page.screenshot(path=os.path.join(folder, "gateways-away.png"), full_page=True)
    finally:
        os.kill(int(process), signal.SIGCONT)
    expect(gateway(page, "g1").locator(".badge")).to_have_text("answers")
    page.set_viewport_size({"width": 380, "height": 800})
    expect(gateway(page, "g1").locator("td[data-label='view']").first).to_be_visible()
    page.screenshot(path=os.path.join(folder, "gateways-phone.png"), full_page=True)
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"the page is {wide} px too wide"
    assert not wrong, wrong
    browser.close()
print("done")
