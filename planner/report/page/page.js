'use strict';
// Draws the numbers of #data. Texts from the data only ever become text nodes.
const data = JSON.parse(document.getElementById('data').textContent);
const s = data.summary;
const byId = id => document.getElementById(id);

// ---- words and numbers ----
function scaled(value, units, base) {
  let i = 0;
  while (Math.abs(value) >= base && i < units.length - 1) { value /= base; ++i; }
  return `${+value.toPrecision(4)} ${units[i]}`;
}
const bytes = n => scaled(n, ['B', 'kB', 'MB', 'GB', 'TB', 'PB'], 1000);
const rate = n => `${bytes(n)}/s`;
const seconds = t => t === 0 ? '0 s' : t >= 1 ? `${+t.toPrecision(4)} s` : scaled(t * 1e9, ['ns', 'µs', 'ms', 's'], 1000);
const percent = x => `${(100 * x).toFixed(x > 0 && x < 0.1 ? 1 : 0)} %`;
const plural = (n, one, many = one + 's') => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

function element(tag, { text, children = [], ...attributes } = {}) {
  const svg = ['svg', 'rect', 'text', 'title', 'g', 'path'].includes(tag);
  const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  e.append(...children);
  return e;
}
function row(table, head, cells) {
  byId(table).tBodies[0].append(element('tr', { children: [head, ...cells.map(c =>
    c instanceof Node ? c : element('td', { text: c, class: 'number' }))] }));
}

// ---- colours: light to strong, read from the theme at every drawing ----
const ramps = {
  light: [[233, 238, 247], [151, 186, 244], [52, 110, 226], [18, 44, 116]],
  dark: [[30, 38, 50], [38, 70, 132], [82, 136, 240], [196, 219, 255]],
};
const isDark = () => document.documentElement.dataset.theme === 'dark';
function colour(x) {
  const ramp = ramps[isDark() ? 'dark' : 'light'];
  const at = Math.min(Math.max(x, 0), 1) * (ramp.length - 1);
  const i = Math.min(Math.floor(at), ramp.length - 2);
  return `rgb(${ramp[i].map((c, k) => Math.round(c + (ramp[i + 1][k] - c) * (at - i))).join(' ')})`;
}
const themed = name => getComputedStyle(document.documentElement).getPropertyValue(name);

// ---- summary and bound ----
function drawSummary() {
  byId('fingerprint').textContent =
    `${s.fingerprint} · ${plural(s.arrays, 'array')} · ${plural(s.hosts, 'host')}`;
  const figures = [
    ['Predicted', seconds(s.predictedSeconds), `${plural(s.windows, 'window')} of ${bytes(s.windowBytes)} a device`],
    ['Quality Q', s.quality.toFixed(3), 'busiest link over the lower bound'],
    ['Busiest link', bytes(s.bottleneckBytes), seconds(s.bottleneckSeconds)],
    ['Crosses the network', bytes(s.bytesCrossing + s.bytesRelayed),
      s.bytesRelayed > 0 ? `${bytes(s.bytesRelayed)} of it to relays` : `${plural(s.operations, 'message')}`],
    ['Peak memory', bytes(s.peakBytesMax), 'of the fullest device'],
  ];
  byId('figures').append(...figures.map(([name, value, note]) => element('div', { children: [
    element('dt', { text: name }),
    element('dd', { text: value, children: [element('small', { text: note })] })] })));
  const parts = [['kept in place', s.bytesKept, '--kept'], ['from the same host', s.bytesLocal, '--local'],
    ['from other hosts', s.bytesCrossing, '--cross']];
  byId('bytes').setAttribute('aria-label', `Of ${bytes(s.bytesTotal)}: ` +
    parts.map(([name, n]) => `${bytes(n)} ${name}`).join(', '));
  for (const [name, n, variable] of parts) {
    if (n > 0) byId('bytes').append(element('i', { style: `flex:${n} 0 0;background:var(${variable})` }));
    const share = s.bytesTotal > 0 ? ` (${percent(n / s.bytesTotal)})` : '';
    byId('bytes-legend').append(element('li', { children: [
      element('i', { style: `background:var(${variable})` }), `${bytes(n)} ${name}${share}`] }));
  }
}

function drawBound() {
  const end = Math.max(s.predictedSeconds, s.bottleneckSeconds, s.routingBoundSeconds, s.lowerBoundSeconds) || 1;
  const box = byId('bound');
  const fill = (t, variable) => box.append(
    element('div', { class: 'fill', style: `width:${100 * t / end}%;background:var(${variable})` }));
  fill(s.predictedSeconds, '--kept');
  fill(s.bottleneckSeconds, '--accent');
  const mark = (t, text, where) => {
    const at = t / end;
    const edge = at > 0.85 ? ' end' : at < 0.15 ? ' begin' : '';
    box.append(element('div', { class: 'mark' + edge, style: `left:calc(${100 * at}% - 2px)`,
      children: [element('span', { class: where, text })] }));
  };
  const bound = s.routingBoundSeconds > s.lowerBoundSeconds * (1 + 1e-9)
    ? `lower bound ${seconds(s.lowerBoundSeconds)}` : `lower bound = T0 ${seconds(s.lowerBoundSeconds)}`;
  mark(s.lowerBoundSeconds, bound, 'above');
  if (!bound.includes('T0')) mark(s.routingBoundSeconds, `T0 ${seconds(s.routingBoundSeconds)}`, 'below');
  mark(s.predictedSeconds, `predicted ${seconds(s.predictedSeconds)}`, bound.includes('T0') ? 'below' : 'above');
  byId('certificate').textContent = data.certificate;
  byId('routing').hidden = data.routingCertificate === '';
  byId('routing-certificate').textContent = data.routingCertificate;
  byId('bottleneck').textContent = data.bottleneck;
}

function drawStrategies() {
  const most = Math.max(1, ...data.strategies.map(r => r.ratio ?? 1));
  // Far apart, ratios are told apart by their logarithms only.
  const far = most > 20;
  if (far) byId('ratio-head').textContent += ' (bars: logarithmic)';
  const length = ratio => far ? 0.1 + 0.9 * Math.log(Math.max(ratio, 1)) / Math.log(most) : ratio / most;
  data.strategies.forEach((r, i) => {
    const ratio = r.ratio === null ? '∞' : `${r.ratio.toFixed(2)} ×`;
    const width = 70 * (r.ratio === null ? 1 : length(r.ratio));
    row('strategies', element('th', { scope: 'row', text: r.name, children: [element('small', { text: r.how })] }), [
      bytes(r.bytesCrossing), bytes(r.bottleneckBytes), seconds(r.seconds),
      element('td', { children: [element('div', { class: i === 0 ? 'bar own' : 'bar', children: [
        element('i', { style: `width:${width}%` }), element('b', { text: ratio })] })] })]);
  });
}

// ---- heat map ----
const n = data.groups.length;
const bytesFrom = (i, j) => data.matrix[i * n + j];
const rows = data.hostsPerGroup > 1 ? `${n} groups of hosts` : `${n} hosts`;
const label = i => data.groups[i].name + (data.groups[i].hosts > 1 ? ` (${data.groups[i].hosts} hosts)` : '');
const matrixMax = Math.max(1, ...data.matrix);
let cursor = [0, 0];

function readCell(i, j) {
  cursor = [i, j];
  byId('matrix-read').textContent = i === j
    ? `${label(i)}: ${bytes(bytesFrom(i, j))} between its devices`
    : `${label(i)} sends ${bytes(bytesFrom(i, j))} to ${label(j)}`;
  const box = byId('matrix').querySelector('.cursor');
  if (!box) return;
  const { left, top, cell } = matrixFrame();
  box.setAttribute('x', left + j * cell);
  box.setAttribute('y', top + i * cell);
  box.setAttribute('visibility', 'visible');
}
function matrixFrame() {
  const labels = n <= 40;
  const longest = Math.min(18, Math.max(...data.groups.map(g => g.name.length)));
  const left = labels ? 14 + longest * 6.4 : 24;
  return { left, top: left, cell: (640 - left) / Math.max(n, 4), labels };
}
function shorten(text) { return text.length > 18 ? `${text.slice(0, 17)}…` : text; }

function drawMatrix() {
  const { left, top, cell, labels } = matrixFrame();
  const size = { w: left + n * cell + 1, h: top + n * cell + 1 };
  const svg = element('svg', { viewBox: `0 0 ${size.w} ${size.h}`, 'aria-hidden': 'true',
    style: `max-width:${size.w}px` });
  svg.append(element('rect', { x: left, y: top, width: n * cell, height: n * cell, fill: colour(0) }));
  for (let i = 0; i < n; ++i) {
    for (let j = 0; j < n; ++j) {
      const value = bytesFrom(i, j);
      if (value === 0) continue;
      svg.append(element('rect', { class: 'cell', x: left + j * cell, y: top + i * cell, width: cell, height: cell,
        rx: Math.min(4, cell / 6), fill: colour(Math.sqrt(value / matrixMax)), 'data-bytes': value,
        opacity: i === j ? 0.75 : 1 }));
    }
    if (!labels) continue;
    const middle = top + (i + 0.5) * cell + 4;
    svg.append(element('text', { x: left - 8, y: middle, 'text-anchor': 'end', text: shorten(data.groups[i].name) }));
    svg.append(element('text', { transform: `translate(${left + (i + 0.5) * cell + 4} ${top - 8}) rotate(-90)`,
      text: shorten(data.groups[i].name) }));
  }
  if (!labels) {
    svg.append(element('text', { x: left, y: 14, text: `to ${rows} →` }));
    svg.append(element('text', { transform: `translate(14 ${top}) rotate(90)`, text: 'from →' }));
  }
  svg.append(element('rect', { class: 'cursor', width: cell, height: cell, visibility: 'hidden', rx: Math.min(4, cell / 6) }));
  svg.addEventListener('pointermove', event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const i = Math.floor((at.y - top) / cell), j = Math.floor((at.x - left) / cell);
    if (i >= 0 && j >= 0 && i < n && j < n) readCell(i, j);
  });
  byId('matrix').replaceChildren(svg);
  const stops = Array.from({ length: 13 }, (_, i) => colour(Math.sqrt(i / 12)));
  byId('ramp').style.background = `linear-gradient(90deg, ${stops.join(',')})`;
}
function drawMatrixOnce() {
  byId('matrix').setAttribute('aria-label',
    `Heat map of bytes between ${rows}; arrow keys read its cells`);
  byId('matrix-note').textContent = 'Rows send, columns receive; the diagonal is traffic inside a host. ' +
    (data.hostsPerGroup > 1 ? `Each row stands for ${data.hostsPerGroup} hosts.` : '');
  byId('ramp').append(element('span', { text: '0' }), element('span', { text: bytes(Math.max(0, ...data.matrix)) }));
  const pairs = data.matrix.map((value, k) => [value, Math.floor(k / n), k % n]).filter(p => p[0] > 0 && p[1] !== p[2])
    .sort((a, b) => b[0] - a[0]).slice(0, 12);
  for (const [value, i, j] of pairs) {
    row('pairs', element('th', { scope: 'row', text: label(i) }), [element('td', { text: label(j) }), bytes(value)]);
  }
  const largest = pairs[0];
  byId('matrix-read').textContent = largest
    ? `Most: ${label(largest[1])} sends ${bytes(largest[0])} to ${label(largest[2])}` : 'No byte leaves its host.';
  byId('matrix').addEventListener('keydown', event => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    readCell(...cursor.map((c, k) => Math.min(Math.max(c + step[k], 0), n - 1)));
  });
}

// ---- timeline ----
const end = data.steps.length ? data.steps.at(-1).start + data.steps.at(-1).seconds : 0;
let stepRead = -1;
const direction = () => document.querySelector('input[name=direction]:checked').value;

function timelineFrame() {
  const labels = n <= 24;
  const rowHeight = Math.max(4, Math.min(22, Math.floor(300 / Math.max(n, 1))));
  const longest = Math.min(18, Math.max(...data.groups.map(g => g.name.length)));
  return { left: Math.max(80, labels ? 14 + longest * 6.6 : 0), top: 96, rowHeight, labels, height: 96 + n * rowHeight + 30 };
}

function drawTimeline() {
  const canvas = byId('timeline'), frame = timelineFrame(), scale = devicePixelRatio || 1;
  const width = canvas.parentElement.clientWidth;
  canvas.style.height = `${frame.height}px`;
  canvas.width = width * scale;
  canvas.height = frame.height * scale;
  const g = canvas.getContext('2d');
  g.scale(scale, scale);
  g.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const x = t => frame.left + (width - frame.left - 4) * (end > 0 ? t / end : 0);
  drawRates(g, frame, x, width);
  drawRows(g, frame, x);
  drawTimes(g, frame, x);
}
// Bytes a second between hosts, above the rows.
function drawRates(g, frame, x, width) {
  const most = Math.max(1e-9, ...data.steps.map(step => step.seconds > 0 ? step.crossing / step.seconds : 0));
  const top = 8, bottom = frame.top - 12, gap = data.steps.length < 120 ? 1 : 0;
  g.fillStyle = themed('--local');
  data.steps.forEach((step, k) => {
    const height = step.seconds > 0 ? (bottom - top) * step.crossing / step.seconds / most : 0;
    g.globalAlpha = k === stepRead ? 1 : 0.7;
    g.fillRect(x(step.start), bottom - height, Math.max(1, x(step.start + step.seconds) - x(step.start) - gap), height);
  });
  g.globalAlpha = 1;
  g.fillStyle = themed('--line');
  g.fillRect(frame.left, bottom, width - frame.left - 4, 1);
  g.fillStyle = themed('--muted');
  g.textAlign = 'right';
  if (data.steps.length) g.fillText(rate(most), frame.left - 8, top + 9);
  g.fillText('0', frame.left - 8, bottom);
}
// How busy every host's NICs are, 0 to 1.
function drawRows(g, frame, x) {
  const key = direction(), between = data.steps.length < 120 ? 1 : 0;
  data.groups.forEach((group, i) => {
    const y = frame.top + i * frame.rowHeight;
    data.steps.forEach((step, k) => {
      const use = step.seconds > 0 ? step[key][i] / group.capacity / step.seconds : 0;
      g.fillStyle = colour(use);
      const gap = frame.rowHeight > 8 ? 2 : 0;
      g.fillRect(x(step.start), y, Math.max(1, x(step.start + step.seconds) - x(step.start) - between),
        frame.rowHeight - gap);
      if (k === stepRead) {
        g.strokeStyle = themed('--ink');
        g.strokeRect(x(step.start), frame.top - 2, x(step.start + step.seconds) - x(step.start), n * frame.rowHeight + 2);
      }
    });
    if (!frame.labels) return;
    g.fillStyle = themed('--muted');
    g.textAlign = 'right';
    g.fillText(shorten(group.name), frame.left - 8, y + frame.rowHeight / 2 + 3);
  });
  if (frame.labels || n === 0) return;
  g.fillStyle = themed('--muted');
  g.textAlign = 'right';
  g.fillText(data.hostsPerGroup > 1 ? `${n} groups` : rows, frame.left - 8, frame.top + 10);
}
function drawTimes(g, frame, x) {
  g.fillStyle = themed('--muted');
  for (let i = 0; i <= 4; ++i) {
    g.textAlign = i === 0 ? 'left' : i === 4 ? 'right' : 'center';
    if (end > 0) g.fillText(seconds(end * i / 4), x(end * i / 4), frame.height - 10);
  }
}
function readStep(k) {
  stepRead = Math.min(Math.max(k, 0), data.steps.length - 1);
  const step = data.steps[stepRead];
  if (!step) return;
  byId('timeline-read').textContent = `${windowsOf(step)}: ${bytes(step.crossing)} between hosts and ${bytes(step.local)} ` +
    `inside in ${seconds(step.seconds)}, from ${seconds(step.start)}`;
  drawTimeline();
}
const windowsOf = step => step.windows > 1
  ? `windows ${step.first} to ${step.first + step.windows - 1}` : `window ${step.first}`;

function drawTimelineOnce() {
  byId('timeline-box').setAttribute('aria-label', 'Timeline of windows; left and right keys read them');
  byId('timeline-note').textContent = data.steps.length === 0 ? 'Nothing moves between devices.' :
    'Bytes a second between hosts, and below how much of every host’s NICs is used: the stronger, the more. ' +
    (data.windowsPerStep > 1 ? `Each column stands for ${data.windowsPerStep} windows.` : '');
  for (const step of data.steps) {
    row('windows', element('th', { scope: 'row', text: windowsOf(step) }),
      [seconds(step.start), seconds(step.seconds), bytes(step.crossing), bytes(step.local)]);
  }
  const box = byId('timeline-box');
  box.addEventListener('pointermove', event => {
    const { left } = timelineFrame(), area = box.getBoundingClientRect();
    const t = end * (event.clientX - area.left - left) / (area.width - left - 4);
    const k = data.steps.findIndex(step => t >= step.start && t < step.start + step.seconds);
    if (k >= 0 && k !== stepRead) readStep(k);
  });
  box.addEventListener('keydown', event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    readStep(stepRead + by);
  });
  for (const input of document.querySelectorAll('input[name=direction]')) input.addEventListener('change', drawTimeline);
  addEventListener('resize', drawTimeline);
}

// ---- hosts ----
function drawLevels() {
  for (const level of data.levels) {
    const d = level.busiest, into = d.secondsIn >= d.secondsOut;
    row('levels', element('th', { scope: 'row', text: d.host ? 'hosts' : `domains, level ${d.level}`,
      children: level.binding ? [element('small', { text: 'binds' })] : [] }),
      [level.count.toLocaleString('en'), bytes(level.bytesOut), element('td', { text: d.name }),
        `${bytes(into ? d.bytesIn : d.bytesOut)} ${into ? 'in' : 'out'}`, rate(into ? d.capacityIn : d.capacityOut),
        element('td', { text: seconds(into ? d.secondsIn : d.secondsOut), class: level.binding ? 'number binding' : 'number' })]);
  }
}
function drawDomains() {
  for (const d of data.domains) {
    const cell = t => d.binding && t >= s.bottleneckSeconds * 0.999
      ? element('td', { text: seconds(t), class: 'number binding' }) : seconds(t);
    row('domains', element('th', { scope: 'row', text: d.name, children: d.binding ? [element('small', { text: 'binds' })] : [] }),
      [bytes(d.bytesIn), rate(d.capacityIn), cell(d.secondsIn), bytes(d.bytesOut), rate(d.capacityOut), cell(d.secondsOut)]);
  }
  byId('domains-note').textContent = data.domainsLeftOut > 0 ? `and ${data.domainsLeftOut} less busy ones` : '';
}

// ---- theme ----
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  byId('theme').textContent = dark ? 'Light' : 'Dark';
  byId('theme').setAttribute('aria-pressed', String(dark));
  drawMatrix();
  drawTimeline();
}
byId('theme').addEventListener('click', () => setTheme(!isDark()));

drawSummary();
drawBound();
drawStrategies();
drawMatrixOnce();
drawTimelineOnce();
drawLevels();
drawDomains();
setTheme(matchMedia('(prefers-color-scheme: dark)').matches);
document.documentElement.dataset.ready = 'true';
