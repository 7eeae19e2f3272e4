'use strict';
// Numbers, names and elements. Texts from the data only ever become text nodes and attributes.
const data = JSON.parse(document.getElementById('data').textContent);
const s = data.summary;
const byId = id => document.getElementById(id);

// ---- numbers ----
function scaled(value, units) {
  let i = 0;
  while (Math.abs(value) >= 999.95 && i < units.length - 1) { value /= 1000; ++i; }
  return `${+value.toPrecision(4)} ${units[i]}`;
}
const bytes = n => scaled(n, ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB']);
const rate = n => `${bytes(n)}/s`;
const seconds = t => t === 0 || t >= 1 ? `${+t.toPrecision(4)} s` : scaled(t * 1e9, ['ns', 'µs', 'ms', 's']);
const percent = x => x > 0 && x < 0.0005 ? '< 0.1 %' : `${+(100 * x).toFixed(Math.abs(x) < 0.1 ? 1 : 0)} %`;
const count = n => n.toLocaleString('en');
const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;
// "3 – 4 GB".
function range(text, [least, most]) {
  const [low, high] = [text(least), text(most)], unit = high.slice(high.indexOf(' '));
  return low === high ? high : `${low.endsWith(unit) ? low.slice(0, -unit.length) : low} – ${high}`;
}
const sum = numbers => numbers.reduce((a, b) => a + b, 0);

// ---- names: they differ at their ends, so a long name loses its middle ----
function elide(name, most = 20) {
  const letters = [...name];
  if (letters.length <= most) return name;
  const head = Math.ceil((most - 1) * 0.4);
  return `${letters.slice(0, head).join('')}…${letters.slice(letters.length - (most - 1 - head)).join('')}`;
}
// "a … d"; of a long last name only the part that differs from the first.
function runText(first, last, n, most = 20) {
  if (n === 1) return elide(first, most);
  let same = 0;
  while (last.length > most && same < last.length && first[same] === last[same]) ++same;
  while (same > 0 && /[0-9a-zA-Z]/.test(last[same - 1])) --same;
  return `${elide(first, most)} ${n === 2 ? 'and' : '…'} ${elide(last.slice(same), most)}`;
}
const unit = (kind, n) => n === 1 ? (kind.host ? 'host' : 'domain') : kind.host ? 'hosts' : 'domains';
const isAlike = kind => [kind.ingressSeconds, kind.egressSeconds].every(([least, most]) => most - least <= 0.3 * s.bottleneckSeconds);
// "64 hosts alike", "host a".
const kindName = kind => kind.count === 1 ? `${unit(kind, 1)} ${elide(kind.runs[0][0])}`
  : `${count(kind.count)} ${unit(kind)}${isAlike(kind) ? ' alike' : ''}`;
// "a … d, f and 3 more".
function membersText(kind) {
  const more = kind.count - sum(kind.runs.map(run => run[2]));
  return kind.runs.map(([first, last, n]) => runText(first, last, n)).join(', ') + (more > 0 ? ` and ${count(more)} more` : '');
}

// ---- elements ----
const svgTags = ['svg', 'path', 'rect', 'line'];
function element(tag, { text, children = [], ...attributes } = {}) {
  const e = svgTags.includes(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  e.append(...children);
  return e;
}
// Cells are texts, right aligned, or elements. Narrow screens show the head of its column beside each.
function row(table, head, cells) {
  const heads = [...byId(table).tHead.rows[0].cells].map(th => th.textContent);
  const tds = cells.map(c => c instanceof Node ? c : element('td', { text: c, class: 'number' }));
  const line = element('tr', { children: [head, ...tds] });
  [...line.cells].forEach((cell, i) => { if (i > 0) cell.dataset.label = heads[i]; });
  byId(table).tBodies[0].append(line);
  return line;
}
const head = (text, small, title) => element('th', { scope: 'row', title,
  children: [text, ...small ? [element('small', { text: small })] : []] });
const kindHead = (kind, tag = 'th') => element(tag, { scope: tag === 'th' ? 'row' : undefined,
  title: kind.runs.map(([first, last, n]) => n === 1 ? first : `${first} … ${last}`).join(', '),
  children: [kindName(kind), ...kind.count > 1 ? [element('small', { text: membersText(kind) })] : []] });
const bar = (part, colour) => element('i', { style: `width:${100 * part}%;background:var(${colour})` });
const box = (tag, kind, ...children) => element(tag, { class: kind, children });
const barCell = (part, colour, text) => box('td', undefined, box('div', 'bar', bar(0.6 * part, colour), element('b', { text })));

// ---- terms: explained in place, on hover, focus and touch, and all together at the end ----
const terms = {
  'predicted time': 'How long the plan takes by its topology: windows follow one another, each as long as its busiest link needs ' +
    'for bytes and messages, but no shorter than it takes to start and end one.',
  'lower bound': 'No plan is faster, whatever it does: some bytes have to pass links of this capacity.',
  'T0': 'No plan without help of third hosts is faster. The planner aims at this.',
  'busiest link': 'The NIC or uplink that needs longest for its bytes, in its busier direction.',
  'busiest fabric': 'The device that needs longest for what it exchanges inside its host, such as over NVLink, in its busier direction.',
  'busy for': 'How long a link needs for its bytes alone: what bounds every schedule from below.',
  'quality Q': 'Seconds of the busiest link over the lower bound: 1 is the best there can be.',
  'window': 'A set of transfers that may be in flight together: what bounds memory in flight.',
  'message': 'What one device sends another in one window.',
  'kept': 'Bytes that the same device holds before and after: they do not move.',
  'inside a host': 'Bytes from another device or memory of the same host, over its fabric, such as NVLink; no NIC sees them.',
  'crossing': 'Bytes from a device of another host, over NICs.',
  'relay': 'A device that takes bytes it does not need, to pass them on.',
  'peak memory': 'Source and target shards and what is in flight, on the device where the three are most.',
  'NIC': 'A network card of a host: full duplex, shared by some of its devices.',
  'domain': 'A rack, pod or the like: hosts behind a common uplink of limited capacity.',
  'alike': 'Hosts whose links have the same capacity and are busy for about the same time: in all, they differ by at most 30 % ' +
    'of the busiest. How much they do stands beside.',
};
const term = (name, text = name) => element('span', { class: 'term', 'data-term': name, tabindex: 0, text });

function showTip(of) {
  const tip = byId('tip');
  tip.textContent = terms[of.dataset.term];
  tip.hidden = false;
  of.setAttribute('aria-describedby', 'tip');
  const at = of.getBoundingClientRect(), box = tip.getBoundingClientRect(), wide = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(8, Math.min(at.left, wide - box.width - 8))}px`;
  const above = at.bottom + box.height + 14 > innerHeight && at.top > box.height + 14;
  tip.style.top = `${above ? at.top - box.height - 6 : at.bottom + 6}px`;
}
function hideTip() { byId('tip').hidden = true; }
function explainTerms() {
  for (const span of document.querySelectorAll('[data-term]')) {
    span.classList.add('term');
    span.tabIndex = 0;
  }
  const on = (name, act) => document.addEventListener(name, event => {
    const of = event.target.closest?.('.term');
    if (of) act(of);
  });
  for (const name of ['pointerover', 'focusin', 'click']) on(name, showTip);
  for (const name of ['pointerout', 'focusout']) on(name, hideTip);
  document.addEventListener('keydown', event => { if (event.key === 'Escape') hideTip(); });
  addEventListener('scroll', hideTip, { passive: true });
  for (const [name, text] of Object.entries(terms)) byId('terms').append(element('dt', { text: name }), element('dd', { text }));
}
