// SPDX-License-Identifier: Apache-2.0
#include "reports/script.h"

namespace duet::reports {

// Values are read from the text of the cells, so that a page of 10,000 rows carries none twice. Sorting takes rows out
// of their groups; the third click on a column puts them back.
const char* const kPageScript = R"js(
'use strict';
(() => {
  const scale = {P: 1e15, T: 1e12, G: 1e9, M: 1e6, k: 1e3, '': 1, m: 1e-3, '\u00b5': 1e-6, n: 1e-9};
  const value = (cell) => {
    let text = '';  // of the first line
    for (const node of cell ? cell.childNodes : []) {
      if (node.nodeName === 'I' || node.nodeName === 'BR') break;
      text += node.textContent;
    }
    text = text.trim();
    let m = /^CPU ([\d.]+)\u00d7/.exec(text);
    if (m) return 1 / m[1];
    m = /^([+-]?[\d.]+)\s?(?:([PTGMkm\u00b5n]?)(?:s|B\/s|FLOP\/s|OP\/s)(?![a-z])|([PTGMk])$)?/.exec(text);
    if (m) return m[1] * scale[m[2] || m[3] || ''];
    return text === '' || text === '\u2013' ? null : text.toLowerCase();
  };
  const compare = (a, b) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === 'number' ? -1 : 1;
  };

  const enhance = (table) => {
    const bodies = [...table.tBodies];
    const rows = bodies.flatMap((body) => [...body.rows].filter((row) => !row.classList.contains('g')));
    const home = new Map(rows.map((row) => [row, row.parentNode]));
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    let sorted = null, direction = 0;

    const show = () => {
      for (const head of heads) head.removeAttribute('aria-sort');
      table.classList.toggle('flat', sorted !== null);
      if (sorted === null) {
        for (const row of rows) home.get(row).append(row);
        return;
      }
      heads[sorted].setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
      const keys = new Map(rows.map((row) => [row, value(row.cells[sorted])]));
      const order = [...rows].sort((a, b) => {
        const x = keys.get(a), y = keys.get(b);
        return x === null || y === null ? compare(x, y) : direction * compare(x, y);
      });
      const all = document.createDocumentFragment();
      for (const row of order) all.append(row);
      bodies[bodies.length - 1].append(all);
    };

    heads.forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      head.textContent = '';
      head.append(button);
      button.addEventListener('click', () => {
        const first = head.classList.contains('n') ? -1 : 1;  // largest numbers first, names from A
        if (sorted !== column) {
          sorted = column;
          direction = first;
        } else if (direction === first) {
          direction = -first;
        } else {
          sorted = null;
        }
        show();
      });
    });

    // The bar above the table: words that a row must hold, and who wins.
    const bar = document.createElement('div');
    bar.className = 'controls';
    const input = document.createElement('input');
    input.type = 'search';
    input.placeholder = 'Filter rows';
    input.setAttribute('aria-label', 'Filter rows by words');
    const count = document.createElement('output');
    bar.append(input);
    const wins = rows.some((row) => row.querySelector('.cpu'));
    const choice = document.createElement('select');
    choice.setAttribute('aria-label', 'Who wins');
    for (const text of ['all rows', 'the GPU wins', 'the CPU wins', 'level']) choice.add(new Option(text));
    if (wins) bar.append(choice);
    bar.append(count);
    const texts = new Map();
    const by_call = heads.findIndex((head, i) => head.dataset.call !== undefined);
    const filter = () => {
      if (!texts.size) for (const row of rows) texts.set(row, row.textContent.toLowerCase());
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const cell = by_call >= 0 ? row.cells[by_call] : row;
        const wins = cell.querySelector('.cpu') ? 2 : by_call >= 0 && cell.querySelector('.muted') ? 3 : 1;
        const ours = choice.selectedIndex === 0 || choice.selectedIndex === wins;
        row.hidden = !ours || !words.every((word) => texts.get(row).includes(word));
        if (!row.hidden) ++shown;
      }
      for (const body of bodies) {
        const title = body.querySelector('tr.g');
        if (title) title.hidden = ![...body.rows].some((row) => row !== title && !row.hidden);
      }
      count.textContent = shown === rows.length ? '' : `${shown} of ${rows.length} rows`;
    };
    input.addEventListener('input', filter);
    choice.addEventListener('change', filter);
    table.parentNode.before(bar);
  };
  for (const table of document.querySelectorAll('table.sortable')) enhance(table);

  // A link into a fold opens it.
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = target; node; node = node.parentElement) if (node.tagName === 'DETAILS') node.open = true;
  };
  addEventListener('hashchange', open);
  open();
})();
)js";

}  // namespace duet::reports
