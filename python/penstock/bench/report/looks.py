"""The page's style sheet and script: light and dark, wide, narrow and printed. A module, so that it is installed too."""

STYLE = """\
:root {
  color-scheme: light dark;
  --ink: #1d2126; --soft: #5b636d; --paper: #ffffff; --panel: #f5f6f8; --line: #d9dde2; --grid: #e3e6ea; --link: #0b5cad;
  --published: #6d5a9c; --better: #00694a; --worse: #a8371a; --warn: #fff4d6; --warn-line: #c98a00;
  --s0: #0072b2; --s1: #d55e00; --s2: #008f68; --s3: #a8528a; --s4: #8a6d00; --s5: #2a8fc4; --s6: #5c5c5c; --s7: #b03a48;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e8eb; --soft: #a2abb5; --paper: #15181c; --panel: #1e2227; --line: #353b43; --grid: #2e343b; --link: #7fbcff;
    --published: #b7a5e8; --better: #52d3a3; --worse: #ff9a7a; --warn: #3a3013; --warn-line: #d9a521;
    --s0: #56b4e9; --s1: #ff8a4c; --s2: #3fd0a4; --s3: #e39bc8; --s4: #e6c229; --s5: #9fd5f5; --s6: #b8b8b8; --s7: #ff97a3;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
a { color: var(--link); }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: .5rem; }
.frame { display: grid; grid-template-columns: minmax(0, 1fr); max-width: 84rem; margin: 0 auto; padding: 0 1.25rem 4rem; gap: 0 3rem; }
header { padding: 2.5rem 0 1rem; border-bottom: 1px solid var(--line); }
h1 { font-size: clamp(1.6rem, 4vw, 2.3rem); line-height: 1.15; margin: 0 0 .4rem; letter-spacing: -.015em; }
h2 { font-size: 1.45rem; line-height: 1.25; margin: 3.2rem 0 .3rem; letter-spacing: -.01em; }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .3rem; }
p, ul { margin: .5rem 0; max-width: 48rem; }
ul { padding-left: 1.2rem; }
li { margin: .3rem 0; }
.findings > ul { list-style: none; padding: 0; }
.findings > ul > li { margin: .7rem 0; }
.findings ul ul { margin: .1rem 0; }
strong { font-weight: 650; font-variant-numeric: tabular-nums; }
code { font: .88em ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; background: var(--panel); padding: .1em .3em; border-radius: .25rem; }
.soft, .source, figcaption, .note { color: var(--soft); font-size: .9rem; }
nav { font-size: .92rem; }
nav ul { list-style: none; padding: 0; margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; max-width: none; }
nav li { margin: 0; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(12.5rem, 100%), 1fr)); gap: .8rem; margin: 1.2rem 0; }
.tile { line-height: 1.35; background: var(--panel); border-radius: .6rem; padding: .9rem 1rem; border-top: 3px solid var(--s0); }
.tile b { display: block; margin-bottom: .3rem; font-size: 1.9rem; line-height: 1.1; font-weight: 650; font-variant-numeric: tabular-nums; letter-spacing: -.02em; }
.tile span { display: block; color: var(--soft); font-size: .88rem; line-height: 1.4; margin-top: .35rem; }
.warnings { background: var(--warn); border-left: 4px solid var(--warn-line); padding: .6rem 1rem; border-radius: 0 .4rem .4rem 0; margin: 1rem 0; }
.warnings ul { margin: .2rem 0; }
.emulated { border-left: 3px solid var(--line); padding-left: .9rem; }
dl { display: grid; grid-template-columns: fit-content(15rem) minmax(0, 1fr); gap: .25rem 1.2rem; background: var(--panel); padding: 1rem 1.2rem; border-radius: .6rem; margin: 1rem 0; font-size: .93rem; }
dt { color: var(--soft); }
dd { margin: 0; }
.tag { display: inline-block; font-size: .78rem; font-weight: 600; padding: .05rem .5rem; border-radius: 1rem; border: 1px solid currentColor; vertical-align: .15em; margin-left: .5rem; letter-spacing: 0; color: var(--soft); }
.tag.ok { color: var(--better); }
.tag.failed, .tag.interrupted { color: var(--worse); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1.8rem 2rem; margin: 1.2rem 0; align-items: start; }
figure { margin: 0; min-width: 0; max-width: 32rem; }
figure svg { display: block; width: 100%; height: auto; overflow: visible; }
figure svg text { font-family: inherit !important; }
figure h3 { margin: 0 0 .4rem; }
figcaption { margin-top: .2rem; font-size: .84rem; }
.scroll { overflow-x: auto; margin: .4rem 0 .8rem; border: 1px solid var(--line); border-radius: .5rem; }
.tall .scroll { max-height: 32rem; overflow-y: auto; }
.tall thead { position: sticky; top: 0; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; width: 100%; font-size: .87rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .32rem .7rem; text-align: left; vertical-align: baseline; border-bottom: 1px solid var(--line); }
tbody tr:last-child td { border-bottom: 0; }
tbody tr:hover { background: var(--panel); }
th { background: var(--panel); font-weight: 600; vertical-align: bottom; min-width: 4rem; max-width: 13rem; overflow-wrap: break-word; line-height: 1.3; }
th button { all: unset; cursor: pointer; display: inline; }
th button:hover { text-decoration: underline; }
th button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: " ▲"; font-size: .7em; }
th[aria-sort=descending] button::after { content: " ▼"; font-size: .7em; }
.n { text-align: right; white-space: nowrap; }
th.n { white-space: normal; }
td.w { min-width: 13rem; max-width: 30rem; }
td:not(.n) { max-width: 30rem; overflow-wrap: break-word; }
.better { color: var(--better); }
.worse { color: var(--worse); }
.faint { color: var(--soft); font-style: italic; }
details { margin: .5rem 0; }
summary { cursor: pointer; font-weight: 600; padding: .25rem 0; }
summary::marker { color: var(--soft); }
summary small { font-weight: 400; color: var(--soft); }
footer { margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--line); }
@media (min-width: 75rem) {
  .frame { grid-template-columns: 12rem minmax(0, 1fr); }
  header { grid-column: 1 / -1; }
  nav { position: sticky; top: 1rem; align-self: start; max-height: calc(100vh - 2rem); overflow-y: auto; padding-top: 1.6rem; }
  nav ul { display: block; }
  nav li { margin: .45rem 0; line-height: 1.3; }
}
@media (max-width: 34rem) {
  .frame { padding: 0 .9rem 3rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .5rem; }
}
@media print {
  :root {
    --ink: #000; --soft: #444; --paper: #fff; --panel: #f3f3f3; --line: #bbb; --grid: #ddd; --link: #000; --published: #6d5a9c;
    --better: #00563c; --worse: #8f2c12; --warn: #fff4d6; --warn-line: #c98a00;
    --s0: #0072b2; --s1: #d55e00; --s2: #008f68; --s3: #a8528a; --s4: #8a6d00; --s5: #2a8fc4; --s6: #5c5c5c; --s7: #b03a48;
  }
  @page { margin: 16mm 14mm; }
  html { font-size: 9pt; }
  body { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .frame { display: block; padding: 0; max-width: none; }
  nav, .skip { display: none; }
  header { padding-top: 0; }
  a { text-decoration: none; }
  h2, h3, summary { break-after: avoid; }
  figure, .tile, tr, .warnings { break-inside: avoid; }
  .plots { grid-template-columns: 1fr 1fr; }
  .scroll, .tall .scroll { overflow: visible; border: 0; max-height: none; }
  table { font-size: 6.6pt; }
  th, td { padding: .15rem .3rem; min-width: 0; }
  td.w { min-width: 0; }
  td:not(.n), .n { white-space: normal; overflow-wrap: anywhere; }
  th, th.n { overflow-wrap: anywhere; min-width: 11mm; }
  table.wide { font-size: 5.4pt; }
  table.wide th { min-width: 0; }
}
"""

SCRIPT = """\
"use strict";
// Sorts a table by the column that was clicked, and opens what is folded while the page is printed.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, row = head.parentElement, table = row.closest("table");
    const column = [...row.children].indexOf(head), body = table.tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of row.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (line) => {
      const cell = line.children[column], number = parseFloat(cell.dataset.v);
      return Number.isNaN(number) ? cell.textContent : number;
    };
    const order = (a, b) => {
      const x = value(a), y = value(b);
      if (typeof x === typeof y) return typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
      return typeof x === "number" ? -1 : 1;
    };
    const lines = [...body.rows].sort((a, b) => (down ? order(b, a) : order(a, b)));
    body.append(...lines);
  });
}
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const each of folded) each.open = !each.classList.contains("bulk");
});
addEventListener("afterprint", () => {
  for (const each of folded) each.open = false;
});
"""
