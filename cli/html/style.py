"""How the page of a report looks: on a wide screen, a narrow one, in the dark, and on paper."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --muted: #57606a; --grid: #d8dee4; --paper: #ffffff;
  --card: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --muted: #9ba6b2; --grid: #3a424c;
  --paper: #12161b; --card: #1b2128; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 1240px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; }
.note { color: var(--muted); font-size: .87rem; }
.hint { display: none; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1rem 0 0; padding: 0; }
.cards div { background: var(--card); border-radius: 8px; padding: .7rem .9rem; }
.cards dt { color: var(--muted); font-size: .8rem; }
.cards dd { margin: 0; font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.cards dd small { display: block; font-size: .78rem; font-weight: 400; color: var(--muted); }
.bar { display: flex; height: 1.1rem; border-radius: 4px; overflow: hidden; margin-top: 1rem; }
.key { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .5rem 0 0; padding: 0; list-style: none; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 0 1.5rem; }
.row > * { min-width: 0; }
.tables { columns: 30rem; column-gap: 2rem; }
.tables section { break-inside: avoid; overflow: hidden; }
figure { margin: 0; overflow-x: auto; }
svg { display: block; width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt; }
.wide svg { min-width: 46rem; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; min-width: 100%; }
.scroll { overflow-x: auto; }
th, td { padding: .25rem .7rem .25rem 0; text-align: left; vertical-align: top; overflow-wrap: break-word;
  border-bottom: 1px solid var(--grid); }
th { color: var(--muted); font-weight: 600; }
th:last-child, td:last-child { padding-right: 0; }
.n { text-align: right; white-space: nowrap; }
.name { white-space: nowrap; }
.swatch { display: inline-block; width: .75em; height: .75em; margin-right: .5em; border-radius: 2px; }
@media screen and (max-width: 46rem) {
  .hint { display: block; }
  .account th:nth-child(2), .account td:nth-child(2) { display: none; }
  .stack thead { display: none; }
  .stack table, .stack tbody { display: block; }
  .stack tr { display: grid; grid-template-columns: repeat(2, 1fr); gap: .2rem 1rem; padding: .8rem 0;
    border-bottom: 1px solid var(--grid); }
  .stack td { display: block; border: 0; padding: 0; text-align: left; white-space: normal; }
  .stack td:first-child { grid-column: 1 / -1; }
  .stack td:nth-child(n+2)::before { content: attr(data-label); display: block; color: var(--muted);
    font-size: .8rem; }
}
@media print {
  :root { color-scheme: light; --ink: #000; --muted: #444; --grid: #bbb; --paper: #fff; --card: #fff; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { max-width: none; padding: 0; font-size: 9.5pt; }
  .cards { grid-template-columns: none; grid-auto-flow: column; grid-auto-columns: 1fr; gap: 3mm; }
  .cards div { border: 1px solid var(--grid); padding: 2mm 3mm; }
  .row { grid-template-columns: 1fr 1fr; gap: 0 6mm; }
  .row:has(> section:only-child) { display: block; }
  .wide svg { min-width: 0; max-height: 168mm; }
  .tables { columns: 4; column-gap: 5mm; }
  .tables table, .tables .note { font-size: 7.5pt; }
  .tables .name { white-space: normal; }
  .costs th:nth-child(4), .costs td:nth-child(4) { display: none; }
  .account th:nth-child(2), .account td:nth-child(2) { display: none; }
  h2 { margin: 5mm 0 1mm; }
  .tables h2 { margin-top: 3mm; }
  table { font-size: 8pt; line-height: 1.25; }
  td, th { padding: .35mm .35rem .35mm 0; overflow-wrap: anywhere; }
  .n { overflow-wrap: normal; }
  .note { font-size: 8pt; }
  td .note { font-size: inherit; }
  section, tr, .cards { break-inside: avoid; }
  section.long { break-inside: auto; }
  .row:has(> .timeline) + .stack { break-before: page; }
  h2, .note { break-after: avoid; }
  thead { display: table-header-group; }
  .scroll, figure { overflow: visible; }
  @page { size: A4 landscape; margin: 10mm 12mm; }
}
"""
