#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTML report in headless Chromium: layout at three widths, light and dark, on paper, with and without scripts.

Pages are rendered from an invented run (duet_example_run). In copies of a page, MEASURE is added, which measures the
layout and leaves the result as JSON in the document; --dump-dom reads it back. Skips (77) where there is no Chromium.
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

BIN = pathlib.Path(os.environ["DUET_BIN"])
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MAX_PAPER_PAGES = 45  # 26 with closed folds; open ones are several times that
PAPER = 1039  # CSS pixels between the margins of an A4 page in landscape, as the page's style asks for

MEASURE = r"""
const out = {errors: []};
const all = (selector, root) => [...(root || document).querySelectorAll(selector)];
const text = (node) => node.textContent.trim();
const folded = (node) => node.closest('details:not([open])') !== null;
const shown = (node) => !folded(node) && node.getClientRects().length > 0;

// The page and what is wider than it.
out.width = innerWidth;
out.page = document.documentElement.scrollWidth;
out.tables = all('table').filter(shown).map((table) => {
  const box = table.parentNode, heads = all('thead tr:last-child th', table);
  return {section: text(table.closest('section').querySelector('h2')),
          groups: all('th[scope=colgroup]', table).map(text), titles: heads.map(text),
          spans: all('thead tr:first-child > *', table).map((cell) => [text(cell), cell.colSpan]),
          right: Math.max(...heads.map((head) => head.getBoundingClientRect().right)),
          reach: box.getBoundingClientRect().left + (getComputedStyle(box).overflowX === 'auto' ? box.scrollWidth : box.clientWidth),
          hidden: heads.filter((head) => !shown(head)).length,
          rows: all('tbody tr:not(.g)', table).map((row) => [...row.cells].map(text)),
          sources: all('tr.g', table).map(text),
          cut: all('td, th', table).filter((cell) => cell.scrollWidth > cell.clientWidth + 1).length};
});
out.folds = all('details').length;
out.open = all('details[open]').length;
out.headings = all('h2').map((h) => h.id);
out.links = all('nav a').map((a) => a.getAttribute('href'));
out.conclusions = all('section').filter((s) => s.lastElementChild.className === 'conclusion').map((s) => s.querySelector('h2').id);
out.h1 = text(document.querySelector('h1'));
out.header = text(document.querySelector('header'));
out.chart_top = document.querySelector('figure') ? document.querySelector('figure').getBoundingClientRect().top : 0;
out.visible = all('main *').filter((n) => shown(n) && n.children.length === 0).map(text).join('\n');
out.foreign = all('img, iframe, a:not([href^="#"]), [onerror], [onclick]').length;
out.lost_visible = all('td .cpu').filter(shown).length;
out.commands = all('code').filter(shown).map(text);

// Text in charts, in pixels on the screen.
out.small = all('svg text').filter(shown).map((t) => {
  const svg = t.ownerSVGElement, matrix = svg.getScreenCTM();
  return parseFloat(getComputedStyle(t).fontSize) * (matrix ? matrix.a : 1);
}).reduce((a, b) => Math.min(a, b), 1000);
out.outside = all('figure').filter(shown).flatMap((figure) => {
  const box = figure.getBoundingClientRect();
  return all('svg text', figure).filter((t) => {
    const r = t.getBoundingClientRect();
    return r.left < box.left - 1 || r.right > box.right + 1;
  }).map(text);
});

// Contrast of text with what lies behind it, and of bars with the page.
const rgb = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
const light = (colour) => rgb(colour).slice(0, 3).map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const behind = (node) => {
  for (let n = node; n; n = n.parentElement) {
    const c = getComputedStyle(n).backgroundColor;
    if (rgb(c).length === 3 || rgb(c)[3] === 1) return c;
  }
  return 'rgb(255, 255, 255)';
};
const page = behind(document.body);
out.page_colour = page;
out.text_contrast = {};
for (const node of all('body *')) {
  if (!shown(node) || ![...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
  if (node.matches('script, style, title, desc, option')) continue;
  const svg = node.matches('svg *'), style = getComputedStyle(node);
  if (svg && node.classList.contains('on')) continue;
  const ratio = contrast(svg ? style.fill : style.color, svg ? page : behind(node));
  const key = node.tagName + '.' + (node.getAttribute('class') || '');
  out.text_contrast[key] = Math.min(out.text_contrast[key] || 99, ratio);
}
out.bar_contrast = {};
for (const node of all('svg rect, svg circle, svg path, svg line')) {
  const cls = [...node.classList].find((c) => /^[fl]-/.test(c));
  if (!cls || node.closest('pattern')) continue;
  const style = getComputedStyle(node);
  out.bar_contrast[cls] = contrast(cls[0] === 'f' ? style.fill : style.stroke, page);
}
const on = document.querySelector('svg .on');
out.on_contrast = {};
if (on)
  for (const node of all('#training-steps ~ * rect'))
    for (const cls of node.classList)
      if (/^f-p/.test(cls)) out.on_contrast[cls] = contrast(getComputedStyle(on).fill, getComputedStyle(node).fill);

// Sorting and filtering, where the page's script ran.
out.controls = all('.controls').length;
const table = all('table.sortable').filter((t) => t.closest('section').querySelector('#every-case, #cpu-times'))[0];
if (table && out.controls) {
  const column = (i) => all('tbody tr:not(.g)', table).filter(shown).map((row) => text(row.cells[i]));
  const heads = all('thead tr:last-child th', table);
  const call = heads.findIndex((h) => h.dataset.call !== undefined);
  const before = column(0);
  const button = (i) => heads[i].querySelector('button');
  out.time_column = heads.findIndex((h) => text(h) === 'time');
  button(out.time_column).click();
  out.by_time = column(out.time_column);
  out.sorted_mark = heads[out.time_column].getAttribute('aria-sort');
  out.groups_when_sorted = all('tr.g', table).filter(shown).length;
  button(out.time_column).click();
  out.by_time_up = column(out.time_column);
  button(out.time_column).click();
  out.restored = JSON.stringify(column(0)) === JSON.stringify(before);
  if (call >= 0) {
    button(call).click();
    out.by_ratio = column(call);
    button(call).click();
    button(call).click();
  }
  const input = table.closest('section').querySelector('.controls input');
  input.value = 'softmax BF16';
  input.dispatchEvent(new Event('input'));
  out.filtered = column(0);
  out.count = text(table.closest('section').querySelector('.controls output'));
  input.value = '';
  const select = table.closest('section').querySelector('.controls select');
  if (select) {
    select.selectedIndex = 2;
    select.dispatchEvent(new Event('change'));
    out.lost = column(call);
    select.selectedIndex = 0;
    select.dispatchEvent(new Event('change'));
  }
  out.unfiltered = JSON.stringify(column(0)) === JSON.stringify(before);
}
"""

failures = []


def check(condition, message):
    if not condition:
        failures.append(message)


def run_chromium(chromium, *args):
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run([chromium, "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                               *args], capture_output=True, text=True, timeout=800)


class Pages:
    """Copies of a report and what was measured in them."""

    def __init__(self, chromium, folder, run_args=()):
        self.chromium, self.folder = chromium, folder
        folder.mkdir()
        run = folder / "run.json"
        subprocess.run([BIN / "duet_example_run", *run_args, run], check=True)
        subprocess.run([BIN / "duet", "report", run, "-o", folder], check=True, stdout=subprocess.DEVNULL)
        self.html = (folder / "report.html").read_text(encoding="utf-8")

    def copy(self, name, text):
        path = self.folder / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        return path.as_uri()

    def dom(self, name, text, *args):
        return run_chromium(self.chromium, *args, "--dump-dom", self.copy(name, text)).stdout

    def measure(self, name, width, height=900, dark=False, scripts=True, paper=False):
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", self.html)
        if not scripts:
            text = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
        if paper:
            text = text.replace("@media print", "@media all").replace("@media screen", "@media speech")
        script = ("<script>addEventListener('load', () => { const pre = document.createElement('pre'); pre.id = 'measured';"
                  " const result = (() => { try {" + MEASURE +
                  "return out; } catch (e) { return {errors: [String(e) + e.stack]}; } })();"
                  " pre.textContent = JSON.stringify(result); document.body.append(pre); });</script>")
        args = [f"--window-size={width},{height}"]
        if dark:
            args.append("--blink-settings=preferredColorScheme=0")
        dom = self.dom(name, text.replace("</body>", script + "</body>"), *args)
        found = re.search(r'<pre id="measured">(.*?)</pre>', dom, re.S)
        if not found:
            sys.exit(f"{name}: Chromium gave no result: {dom[-500:]}")
        result = json.loads(html.unescape(found.group(1)))
        if result["errors"]:
            sys.exit(f"{name}: {result['errors']}")
        return result

    def pdf_pages(self, name, text):
        path = self.folder / f"{name}.pdf"
        run_chromium(self.chromium, "--no-pdf-header-footer", f"--print-to-pdf={path}", self.copy(name, text))
        data = path.read_bytes()
        boxes = re.findall(rb"/MediaBox\s*\[\s*0\s+0\s+([\d.]+)\s+([\d.]+)", data)
        return len(re.findall(rb"/Type\s*/Page\b", data)), {(float(w), float(h)) for w, h in boxes}


def number(text):
    """The first time or ratio of a cell; of a ratio that the CPU wins its inverse."""
    lost = re.match(r"CPU ([\d.]+)×", text)
    if lost:
        return 1 / float(lost.group(1))
    found = re.match(r"([\d.]+)\s?(ms|µs|ns|s)?", text)
    return float(found.group(1)) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, None: 1}[found.group(2)]


def check_layout(name, m):
    check(m["page"] <= m["width"], f"{name}: the page is {m['page']} px wide in a window of {m['width']}")
    for table in m["tables"]:
        check(table["right"] <= table["reach"] + 1, f"{name}: the last column of '{table['section']}' cannot be reached")
        check(table["hidden"] == 0, f"{name}: '{table['section']}' hides columns")
    check(m["small"] >= 9, f"{name}: text of {m['small']:.1f} px in a chart")
    check(not m["outside"], f"{name}: chart texts beyond their figure: {m['outside'][:3]}")


def check_colours(name, m):
    for node, ratio in m["text_contrast"].items():
        check(ratio >= 4.5, f"{name}: text of {node} has a contrast of {ratio:.2f}")
    for cls, ratio in m["bar_contrast"].items():
        check(ratio >= 3, f"{name}: bars and lines of class {cls} have a contrast of {ratio:.2f}")
    for cls, ratio in m["on_contrast"].items():
        check(ratio >= 4.5, f"{name}: text on bars of class {cls} has a contrast of {ratio:.2f}")


def check_content(m):
    tables = {}
    for table in m["tables"]:
        tables.setdefault(table["section"], table)
        for i, title in enumerate(table["titles"]):
            values = {row[i] for row in table["rows"]}
            check(values - {"", "–"}, f"'{table['section']}': column '{title}' is empty")
            if len(table["rows"]) > 5 and title in ("threads", "cache", "one thread"):
                check(len(values) > 1, f"'{table['section']}': column '{title}' says the same in every row")
        titles, at = [], 0
        for group, span in table["spans"] if table["groups"] else [("", len(table["titles"]))]:
            titles += [(group, title) for title in table["titles"][at:at + span]]
            at += span
        check(len(set(titles)) == len(table["titles"]), f"'{table['section']}': two columns of one title: {titles}")
    cases = tables["Every case"]
    check(cases["groups"] == ["CPU", "GPU kernel", "GPU call", "GPU with copies"], f"groups: {cases['groups']}")
    check("ResNet-50" in " ".join(cases["sources"]), "no rows of the source ResNet-50")
    check(any("MLP" in source for source in cases["sources"]), "no rows of the source MLP")
    check(any("124M vocabulary" in row[0] for row in cases["rows"]), "rows do not say why their shape is measured")
    check(not any(row[0].startswith("step") for row in cases["rows"]), "steps stand among the ops")
    lost = [row for row in cases["rows"] if any(re.match(r"CPU \d+× faster", cell) for cell in row)]
    check(lost and m["lost_visible"] > 10, "cases that the CPU wins are not to be seen")
    check(not re.search(r"(?<![\d.])0\.\d+×", " ".join(" ".join(row) for t in m["tables"] for row in t["rows"])),
          "a ratio below 1 is printed as such")
    steps = tables["Training steps"]
    check("GPU graph" in steps["groups"] and "against the CPU" in steps["titles"], "steps have no column of ratios")
    even = tables["Break-even"]
    check(not any("≈" in cell for row in even["rows"] for cell in row), "a break-even is interpolated")
    check(any("between" in cell for row in even["rows"] for cell in row), "no break-even between measured sizes")
    check(m["headings"] and [f"#{h}" for h in m["headings"]] == m["links"], "headings and links of the contents differ")
    for section in ("speedup", "training-steps", "roofline", "bandwidth", "break-even", "every-case", "without-a-result"):
        check(section in m["conclusions"], f"section '{section}' ends without a conclusion")
    check(any(c.startswith("build/bin/duet op conv2d --impl cuda.naive") for c in m["commands"]),
          "the command that repeats a failure is not shown")
    check(re.match(r"The GPU wins \d+ of \d+ cases, the CPU \d+", m["h1"]), f"headline: {m['h1']}")
    for word in ("openblas", "cudnn", "g++", "governor"):
        check(word not in m["header"], f"'{word}' stands before the results")
    check(0 < m["chart_top"] < 900, f"the first chart begins at {m['chart_top']} px")
    check(m["open"] == 0, "folds are open")


def check_script(m):
    down = [number(t) for t in m["by_time"]]
    check(down == sorted(down, reverse=True) and m["sorted_mark"] == "descending", "sorting by time, largest first")
    up = [number(t) for t in m["by_time_up"]]
    check(up == sorted(up), "sorting by time, smallest first")
    check(m["groups_when_sorted"] == 0, "sources head rows that are not theirs")
    check(m["restored"], "the third click does not restore the order")
    ratios = [number(t) for t in m["by_ratio"]]
    check(ratios == sorted(ratios, reverse=True) and ratios[-1] < 1 < ratios[0], "sorting by ratio")
    check(m["filtered"] and all("softmax" in t and "bf16" in t for t in m["filtered"]), f"filter: {m['filtered'][:3]}")
    check(re.fullmatch(r"\d+ of \d+ rows", m["count"]), f"count of filtered rows: '{m['count']}'")
    check(m["lost"] and all(t.startswith("CPU ") for t in m["lost"]), "filter of what the CPU wins")
    check(m["unfiltered"], "the filter leaves rows hidden")


def main():
    chromium = next((found for found in map(shutil.which, NAMES) if found), None)
    if not chromium:
        print("skipped: no Chromium (Debian's package chromium-headless-shell)")
        return 77
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        scratch = pathlib.Path(scratch)
        gpu, cpu = Pages(chromium, scratch / "gpu"), Pages(chromium, scratch / "cpu", ["--no-gpu"])
        jobs = {}

        def start(name, pages, *args, **kwargs):
            jobs[name] = pool.submit(pages.measure, name, *args, **kwargs)

        start("1400 px", gpu, 1400)
        start("1400 px, dark", gpu, 1400, dark=True)
        start("800 px", gpu, 800)
        start("400 px", gpu, 400)
        start("1400 px, no scripts", gpu, 1400, scripts=False)
        start("paper", gpu, PAPER, paper=True)
        start("400 px, no GPU", cpu, 400)
        start("1400 px, no GPU, dark", cpu, 1400, dark=True)
        # The policy lets the page's own script run and no other.
        foreign = gpu.html.replace("</body>", "<script>document.body.id = 'ran'</script></body>")
        policy = pool.submit(gpu.dom, "policy", foreign)
        pdf = pool.submit(gpu.pdf_pages, "closed", gpu.html)
        m = {name: job.result() for name, job in jobs.items()}

        for name, measured in m.items():
            if name != "paper":
                check_layout(name, measured)
            check_colours(name, measured)
            check(measured["foreign"] == 0, f"{name}: an element that no report has")
        check(m["1400 px"]["page_colour"] != m["1400 px, dark"]["page_colour"], "dark and light have one background")
        check_content(m["1400 px"])
        check_content(m["1400 px, no scripts"])
        check_script(m["1400 px"])
        check(m["1400 px, no scripts"]["controls"] == 0, "controls without a script")

        paper, screen = m["paper"], m["1400 px"]
        check(paper["page"] <= PAPER, f"paper: the page is {paper['page']} px wide, the sheet {PAPER}")
        check([t["titles"] for t in paper["tables"]] == [t["titles"] for t in screen["tables"]], "paper drops columns")
        for table in paper["tables"]:
            check(table["right"] <= PAPER + 1 and table["hidden"] == 0, f"paper cuts off '{table['section']}'")
        check(paper["open"] == 0 and paper["folds"] == screen["folds"], "paper opens folds")
        pages, boxes = pdf.result()
        check(boxes and all(w > h for w, h in boxes), f"paper is not in landscape: {boxes}")
        check(0 < pages < MAX_PAPER_PAGES, f"print opens folds: {pages} pages")

        dom = policy.result()
        check('class="controls"' in dom, "the policy blocks the page's own script")
        check('id="ran"' not in dom, "the policy lets a foreign script run")

        check("No GPU was measured" in m["1400 px, no GPU, dark"]["header"], "no answer without a GPU")
        check(m["1400 px, no GPU, dark"]["h1"].startswith("The CPU reaches"), m["1400 px, no GPU, dark"]["h1"])
        for name in ("<script>alert(1)</script>", "=cmd|' /C calc'!A0"):
            check(name in screen["visible"], f"the name {name} is not shown as text")
    for failure in failures:
        print("FAILED:", failure)
    print(f"{len(m)} pages measured, {pages} pages on paper, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
