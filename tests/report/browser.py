"""A real Chromium that opens a page, without a screen: what the page's own checks found, or a picture of it."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_chromium = pytest.mark.skipif(
    not CHROMIUM, reason="Chromium is not installed here; apt-get install chromium brings it"
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--enable-logging=stderr", "--virtual-time-budget=3000",
]  # fmt: skip

HEIGHT = 1400

# Goes first, so that nothing escapes it.
WATCH = """<script>
window.found = {errors: [], blocked: []};
window.addEventListener("error", (event) => found.errors.push(String(event.message || event.target)), true);
document.addEventListener("securitypolicyviolation", (event) => found.blocked.push(event.blockedURI));
</script>"""
# Goes last: looks at the page as a reader would, clicks, and tells the frame what it saw.
CHECK = """<script>
window.addEventListener("load", () => setTimeout(() => {
  const table = document.querySelector("table.sortable");
  const column = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
  const click = (name) => {
    const heading = [...table.querySelectorAll("thead th")].find((th) => th.textContent.trim() === name);
    heading.querySelector("button").click();
    return {order: column(), sort: heading.getAttribute("aria-sort")};
  };
  found.before = column();
  found.distinct = [click("distinct"), click("distinct")];
  found.names = [click("column"), click("column")];
  found.charts = [...document.querySelectorAll("svg.chart")].map((svg) => ({
    title: svg.getAttribute("aria-label"), width: svg.getBoundingClientRect().width,
    ink: [...svg.querySelectorAll(".mark, .line")].filter((m) => m.getBBox().width > 0).length,
  }));
  found.sparks = document.querySelectorAll("svg.spark").length;
  found.resources = performance.getEntriesByType("resource").map((entry) => entry.name);
  found.width = window.innerWidth;
  found.content = document.documentElement.scrollWidth;
  found.cut = [...document.querySelectorAll(".scroll")].map((box) => box.scrollWidth - box.clientWidth);
  found.paper = getComputedStyle(document.body).backgroundColor;
  found.headings = [...document.querySelectorAll("h2")].map((h) => h.textContent);
  found.scripts = document.scripts.length;
  parent.postMessage(JSON.stringify(found), "*");
}, 50));
</script>"""
# No window of Chromium's is narrower than 500 pixels; a frame is as wide as one likes.
FRAME = """<!doctype html><body style="margin:0"><pre id="found"></pre><script>
window.addEventListener("message", (event) => { document.getElementById("found").textContent = event.data; });
</script><iframe src="%s" style="width:%dpx;height:%dpx;border:0"></iframe>"""


def look(page: str, folder: Path, *, width: int = 1200, dark: bool = False) -> dict:
    """What the page is like in a window of this width."""
    watched = page.replace("<head>", "<head>" + WATCH, 1).replace("</body>", CHECK + "</body>", 1)
    (folder / "watched.html").write_text(watched, "utf-8")
    done = _run(folder, "watched.html", ["--dump-dom"], width, dark)
    match = re.search(r'<pre id="found">(.+?)</pre>', done.stdout, re.S)
    assert match, f"the page's check did not come to its end: {done.stderr[-2000:]}"
    found = json.loads(unescape(match[1]))
    found["console"] = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return found


def picture(page: str, folder: Path, *, width: int = 1200, dark: bool = False) -> bytes:
    """A PNG of the page."""
    (folder / "page.html").write_text(page, "utf-8")
    _run(folder, "page.html", [f"--screenshot={folder / 'page.png'}"], width, dark)
    return (folder / "page.png").read_bytes()


def _run(folder: Path, name: str, wanted: list[str], width: int, dark: bool) -> subprocess.CompletedProcess:
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    own = [f"--user-data-dir={folder / 'profile'}", f"--window-size={max(500, width)},{HEIGHT}"]
    (folder / "frame.html").write_text(FRAME % (name, width, HEIGHT), "utf-8")
    command = [CHROMIUM, *FLAGS, *scheme, *own, *wanted, (folder / "frame.html").as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
