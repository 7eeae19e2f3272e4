
// ---- between kinds of hosts ----
function drawFlows() {
  const kinds = data.kinds, flows = [];
  data.flows.forEach((n, at) => { if (n > 0) flows.push([n, kinds[Math.floor(at / kinds.length)], kinds[at % kinds.length]]); });
  flows.sort((a, b) => b[0] - a[0]);
  const inside = sum(data.groups.map(group => group.inside)), all = sum(flows.map(f => f[0])) + inside;
  const line = (from, to, n, colour) => row('flows', from, [to, bytes(n), barCell(n / all, colour, percent(n / all))]);
  for (const [n, from, to] of flows.slice(0, 10)) {
    const self = from === to && from.count > 1;
    line(kindHead(from), self ? element('td', { text: 'each other' }) : kindHead(to, 'td'), n, '--cross');
  }
  if (inside > 0) {
    line(head('devices of hosts'), box('td', undefined, term('inside a host', 'devices of the same host')), inside, '--inside');
  }
  const rest = flows.slice(10);
  if (rest.length > 0) line(head(`${rest.length} smaller flows`), element('td'), sum(rest.map(f => f[0])), '--cross');
  byId('flows').hidden = all === 0;
}

// ---- heat map: a row for each sender, a column for each receiver ----
const groups = data.groups, width = groups.length;
const bytesFrom = (i, j) => data.matrix[i * width + j];
const all = groups.map((_, i) => i);
const senders = all.filter(i => groups[i].inside > 0 || all.some(j => bytesFrom(i, j) > 0));
const receivers = all.filter(j => groups[j].inside > 0 || all.some(i => bytesFrom(i, j) > 0));
const shades = 12;
const matrixMax = Math.max(0, ...data.matrix), insideOf = i => bytesFrom(i, i) > 0 ? 0 : groups[i].inside;
const insideMax = Math.max(0, ...all.map(insideOf));
// Every value but 0 is visible: the lightest shade differs clearly from the background.
const shadeOf = (n, most) => Math.round((shades - 1) * Math.sqrt(n / most));
const groupName = (i, most = 24) => runText(groups[i].first, groups[i].last, groups[i].hosts, most);
const sendsText = (i, j) =>
  `${groupName(i)} ${groups[i].hosts > 1 ? 'send' : 'sends'} ${bytes(bytesFrom(i, j))} to ${groupName(j)}`;
let cursor = [0, 0];

// One path for each shade, with a shape for each run of equal cells.
function cellPaths(shadeAt, kind) {
  const paths = Array.from({ length: shades }, () => []);
  senders.forEach((i, y) => {
    for (let x = 0, end; x < receivers.length; x = end) {
      const shade = shadeAt(i, receivers[x]);
      for (end = x + 1; end < receivers.length && shadeAt(i, receivers[end]) === shade; ++end);
      if (shade >= 0) paths[shade].push(`M${x} ${y}h${end - x}v1h${x - end}z`);
    }
  });
  return paths.flatMap((d, shade) =>
    d.length ? [element('path', { class: kind, d: d.join(''), 'fill-opacity': opacity(shade) })] : []);
}
const opacity = shade => (0.3 + 0.7 * shade / (shades - 1)).toFixed(2);

function drawMatrix() {
  const between = cellPaths((i, j) => bytesFrom(i, j) > 0 ? shadeOf(bytesFrom(i, j), matrixMax) : -1, 'between');
  const inside = cellPaths((i, j) => i === j && insideOf(i) > 0 ? shadeOf(insideOf(i), insideMax) : -1, 'inside');
  const few = Math.max(senders.length, receivers.length) <= 48;
  const lines = [...receivers.map((_, x) => `M${x} 0V${senders.length}`), ...senders.map((_, y) => `M0 ${y}H${receivers.length}`)];
  const grid = few ? [element('path', { class: 'grid', d: lines.join('') })] : [];
  byId('cells').append(shape(receivers.length, senders.length, [...between, ...inside, ...grid]),
    element('i', { class: 'cursor', hidden: '' }));
  const map = byId('matrix');
  map.style.setProperty('--columns', receivers.length);
  map.style.setProperty('--rows', senders.length);
  map.setAttribute('aria-label', `Heat map of bytes from ${plural(senders.length, 'sender')} to ` +
    `${plural(receivers.length, 'receiver')}; arrow keys read its cells`);
  drawRamps();
  new ResizeObserver(drawAxes).observe(byId('cells'));
  drawAxes();
}

// As many names as have room.
function drawAxes() {
  const box = byId('cells').getBoundingClientRect();
  const longest = Math.max(...all.map(i => [...elide(groups[i].first, 16)].length));
  const most = innerWidth < 600 ? 9 : 16;
  byId('matrix').style.setProperty('--letters', Math.min(longest, most));
  const draw = (axis, shown, length, room) => {
    const cell = length / shown.length;
    const stride = [1, 2, 4, 5, 8, 10, 16, 20, 32, 64, 128].find(n => n * cell >= room) ?? 128;
    byId(axis).replaceChildren(...shown.flatMap((i, at) => at % stride ? [] : [element('span', { title: groupName(i, 999),
      style: `${axis === 'rows' ? 'top' : 'left'}:${100 * (at + 0.5) / shown.length}%`,
      children: [element('b', { text: elide(groups[i].first, most) })] })]));
  };
  draw('rows', senders, box.height, 15);
  draw('columns', receivers, box.width, 24);
}

function drawRamps() {
  const ramp = (name, kind, most) => {
    const boxes = Array.from({ length: shades }, (_, k) =>
      element('rect', { x: k, width: 1, height: 1, class: kind, 'fill-opacity': opacity(k) }));
    const ends = ['> 0', bytes(most / 4), bytes(most)].map(text => element('span', { text }));
    byId('ramps').append(box('div', 'ramp', box('p', undefined, name), shape(shades, 1, boxes), box('p', 'ends', ...ends)));
  };
  if (matrixMax > 0) ramp('between hosts', 'between', matrixMax);
  const diagonal = data.hostsPerGroup > 1 ? 'inside hosts' : 'inside a host (the diagonal)';
  if (insideMax > 0) ramp(term('inside a host', diagonal), 'inside', insideMax);
}

function readCell(y, x) {
  cursor = [clamp(y, 0, senders.length - 1), clamp(x, 0, receivers.length - 1)];
  const i = senders[cursor[0]], j = receivers[cursor[1]];
  const within = `${bytes(groups[i].inside)} between devices of one host`;
  byId('matrix-read').textContent = i !== j ? sendsText(i, j)
    : groups[i].hosts > 1 ? `${groupName(i)} send each other ${bytes(bytesFrom(i, i))}; ${within}` : `${groupName(i)}: ${within}`;
  const mark = byId('cells').querySelector('.cursor');
  mark.hidden = false;
  mark.style.cssText = `left:${100 * cursor[1] / receivers.length}%;top:${100 * cursor[0] / senders.length}%;` +
    `width:${100 / receivers.length}%;height:${100 / senders.length}%`;
}

function drawWho() {
  drawFlows();
  const pairs = data.matrix.map((n, at) => [n, Math.floor(at / width), at % width]).filter(p => p[0] > 0 && p[1] !== p[2])
    .sort((a, b) => b[0] - a[0]).slice(0, 5);
  for (const [n, i, j] of pairs) {
    row('pairs', head(groupName(i, 12), '', groupName(i, 999)),
      [element('td', { text: groupName(j, 12), title: groupName(j, 999) }), bytes(n)]);
  }
  byId('pairs').closest('details').hidden = pairs.length === 0;
  byId('matrix-read').textContent = pairs.length
    ? `Most: ${sendsText(pairs[0][1], pairs[0][2])}` : 'No byte leaves its host.';
  const silent = width - senders.length, deaf = width - receivers.length;
  byId('matrix-note').textContent = 'Each row sends, each column receives' +
    (data.hostsPerGroup > 1 ? `; each stands for ${data.hostsPerGroup} hosts, named by the first.` : '.') +
    (silent > 0 ? ` Who sends nothing (${count(silent)}) has no row.` : '') +
    (deaf > 0 ? ` Who receives nothing (${count(deaf)}) has no column.` : '') +
    ' A stronger colour is more bytes; an empty cell carries none.';
  byId('matrix').hidden = senders.length === 0;
  if (senders.length === 0) return;
  drawMatrix();
  readBy(byId('matrix'), (rows, columns) => readCell(cursor[0] + rows, cursor[1] + columns), event => {
    const box = byId('cells').getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width, y = (event.clientY - box.top) / box.height;
    if (x >= 0 && y >= 0 && x < 1 && y < 1) readCell(Math.floor(y * senders.length), Math.floor(x * receivers.length));
  });
}
