
// ---- between kinds of hosts: shares of all bytes of the target, as in the bar above ----
function drawFlows() {
  const kinds = data.kinds, flows = [];
  data.flows.forEach((n, at) => { if (n > 0) flows.push([n, kinds[Math.floor(at / kinds.length)], kinds[at % kinds.length]]); });
  flows.sort((a, b) => b[0] - a[0]);
  const inside = sum(data.groups.map(group => group.inside));
  const line = (from, to, n, colour) => row('flows', from, [to, bytes(n), shareCell(n, colour)]);
  for (const [n, from, to] of flows.slice(0, 10)) {
    const self = from === to && from.count > 1;
    line(kindHead(from), self ? element('td', { text: 'each other' }) : kindHead(to, 'td'), n, '--cross');
  }
  const rest = flows.slice(10);
  if (rest.length > 0) line(head(plural(rest.length, 'other flow')), element('td'), sum(rest.map(f => f[0])), '--cross');
  if (inside > 0) {
    line(head('devices of hosts'), box('td', undefined, term('inside a host', 'devices of the same host')), inside, '--inside');
  }
  if (s.keptBytes > 0) line(head('devices'), box('td', undefined, term('kept', 'themselves: kept in place')), s.keptBytes, '--kept');
  byId('flows').hidden = flows.length === 0 && inside === 0;
}
const share = n => s.totalBytes > 0 ? n / s.totalBytes : 0;
const shareCell = (n, colour) => barCell(Math.min(1, share(n)), colour, percent(share(n)));

// ---- between racks ----
function drawRacks() {
  const racks = data.racks, some = racks.length > 1 || data.groups.some(group => group.rack < 0);
  byId('racks-part').hidden = racks.length === 0 || !some;
  if (byId('racks-part').hidden) return;
  const name = rack => rack < 0 ? 'hosts in no rack' : elide(racks[rack], 28);
  byId('racks-note').textContent = `${bytes(data.betweenRacks)} (${percent(share(data.betweenRacks))}) cross between racks, ` +
    `${bytes(data.insideRacks)} (${percent(share(data.insideRacks))}) go between hosts of one rack.`;
  for (const [from, to, n] of data.rackFlows) {
    row('racks', head(name(from), '', racks[from]),
      [element('td', { text: from === to ? 'hosts of the same rack' : name(to), title: racks[to] }), bytes(n), shareCell(n, '--cross')]);
  }
  const more = data.rackPairs - data.rackFlows.length;
  if (more > 0) {
    const rest = data.betweenRacks + data.insideRacks - sum(data.rackFlows.map(f => f[2]));
    row('racks', head(plural(more, 'other flow')), [element('td'), bytes(rest), shareCell(rest, '--cross')]);
  }
}

// ---- heat map: a row for each sender, a column for each receiver; or, of a narrow band, a column for each sender ----
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
const rackName = i => data.racks.length > 1 && groups[i].rack >= 0 ? ` (${elide(data.racks[groups[i].rack], 16)})` : '';
const sendsText = (i, j) => `${groupName(i)}${rackName(i)} ${groups[i].hosts > 1 ? 'send' : 'sends'} ` +
  `${bytes(bytesFrom(i, j))} to ${groupName(j)}${rackName(j)}`;
let cursor = [0, 0], view;

const wholeView = { rows: senders.length, columns: receivers.length, cell: (y, x) => [senders[y], receivers[x]],
  rowRacks: senders, columnRacks: receivers };

// A matrix in which each sender reaches few receivers near a line is a hairline in an empty square: then a row for each distance
// from the line. The line is the sender itself, or its place among receivers if there are more or fewer of these.
function bandView() {
  if (Math.min(senders.length, receivers.length) < 24) return undefined;
  const placeOf = new Map(receivers.map((j, at) => [j, at])), columns = senders.length;
  const lines = [{ origin: i => i, of: j => j, name: 'itself', at: (place) => placeOf.get(place) },
    { origin: (_, x) => Math.floor(x * receivers.length / columns), of: j => placeOf.get(j), name: 'same place', at: place => place }];
  for (const line of lines) {
    let least = Infinity, most = -Infinity;
    senders.forEach((i, x) => receivers.forEach(j => {
      if (bytesFrom(i, j) === 0 && (i !== j || groups[i].inside === 0)) return;
      const by = line.of(j) - line.origin(i, x);
      [least, most] = [Math.min(least, by), Math.max(most, by)];
    }));
    const rows = most - least + 1;
    if (rows > receivers.length / 6) continue;
    const cell = (y, x) => {
      const at = line.at(line.origin(senders[x], x) + most - y);
      return receivers[at] === undefined ? undefined : [senders[x], receivers[at]];
    };
    const label = y => most === y ? line.name : `${most - y > 0 ? '+' : '−'}${Math.abs(most - y)}`;
    return { band: true, rows, columns, cell, label, columnRacks: senders };
  }
}

// One path for each shade, with a shape for each run of equal cells.
function cellPaths(shadeAt, kind) {
  const paths = Array.from({ length: shades }, () => []);
  const at = (y, x) => { const cell = view.cell(y, x); return cell ? shadeAt(...cell) : -1; };
  for (let y = 0; y < view.rows; ++y) {
    for (let x = 0, end; x < view.columns; x = end) {
      const shade = at(y, x);
      for (end = x + 1; end < view.columns && at(y, end) === shade; ++end);
      if (shade >= 0) paths[shade].push(`M${x} ${y}h${end - x}v1h${x - end}z`);
    }
  }
  return paths.flatMap((d, shade) =>
    d.length ? [element('path', { class: kind, d: d.join(''), 'fill-opacity': opacity(shade) })] : []);
}
const opacity = shade => (0.3 + 0.7 * shade / (shades - 1)).toFixed(2);

// Where one rack ends and the next begins.
const rackBorders = shown => shown ? shown.flatMap((i, at) => at > 0 && groups[i].rack !== groups[shown[at - 1]].rack ? [at] : []) : [];

function drawCells() {
  const between = cellPaths((i, j) => bytesFrom(i, j) > 0 ? shadeOf(bytesFrom(i, j), matrixMax) : -1, 'between');
  const inside = cellPaths((i, j) => i === j && insideOf(i) > 0 ? shadeOf(insideOf(i), insideMax) : -1, 'inside');
  const { rows, columns } = view, across = y => `M0 ${y}H${columns}`, down = x => `M${x} 0V${rows}`;
  const lines = [...columns <= 48 ? Array.from({ length: columns }, (_, x) => down(x)) : [],
    ...view.band || rows <= 48 ? Array.from({ length: rows }, (_, y) => across(y)) : []];
  const borders = [...rackBorders(view.columnRacks).map(down), ...rackBorders(view.rowRacks).map(across)];
  const path = (kind, d) => d.length ? [element('path', { class: kind, d: d.join('') })] : [];
  byId('cells').replaceChildren(shape(columns, rows, [...between, ...inside, ...path('grid', lines), ...path('rack', borders)]),
    element('i', { class: 'cursor', hidden: '' }));
}

function drawMatrix(wanted) {
  view = wanted;
  const map = byId('matrix');
  map.classList.toggle('band', view.band === true);
  map.style.setProperty('--columns', view.columns);
  map.style.setProperty('--rows', view.rows);
  map.querySelector('.axis-name.across').textContent = view.band ? 'sends →' : 'receives →';
  map.querySelector('.axis-name.down').textContent = view.band ? 'to ↓' : 'sends ↓';
  map.setAttribute('aria-label', `Heat map of bytes from ${plural(senders.length, 'sender')} to ` +
    `${plural(receivers.length, 'receiver')}; arrow keys read its cells`);
  cursor = [0, 0];
  drawCells();
  drawAxes();
  byId('matrix-note').textContent = noteText();
}

// As many names as have room.
function drawAxes() {
  const area = byId('cells').getBoundingClientRect(), most = innerWidth < 600 ? 9 : 16;
  const longest = Math.max(...all.map(i => [...elide(groups[i].first, 16)].length));
  byId('matrix').style.setProperty('--letters', Math.min(longest, most));
  const draw = (axis, names, length, room) => {
    const cell = length / names.length;
    const stride = [1, 2, 4, 5, 8, 10, 16, 20, 32, 64, 128].find(n => n * cell >= room) ?? 128;
    byId(axis).replaceChildren(...names.flatMap(([text, title], at) => at % stride ? [] : [element('span', { title,
      style: `${axis === 'rows' ? 'top' : 'left'}:${100 * (at + 0.5) / names.length}%`, children: [element('b', { text })] })]));
  };
  const named = shown => shown.map(i => [elide(groups[i].first, most), groupName(i, 999) + rackName(i)]);
  draw('rows', view.band ? Array.from({ length: view.rows }, (_, y) => [view.label(y)]) : named(senders), area.height, 15);
  draw('columns', named(view.band ? senders : receivers), area.width, 24);
}

function drawRamps() {
  const ramp = (name, kind, most) => {
    const boxes = Array.from({ length: shades }, (_, k) =>
      element('rect', { x: k, width: 1, height: 1, class: kind, 'fill-opacity': opacity(k) }));
    const ends = ['> 0', bytes(most / 4), bytes(most)].map(text => element('span', { text }));
    byId('ramps').append(box('div', 'ramp', box('p', undefined, name), shape(shades, 1, boxes), box('p', 'ends', ...ends)));
  };
  if (matrixMax > 0) ramp('between hosts', 'between', matrixMax);
  const diagonal = data.hostsPerGroup > 1 ? 'inside hosts' : 'inside a host';
  if (insideMax > 0) ramp(term('inside a host', diagonal), 'inside', insideMax);
  byId('ramps').append(element('p', { class: 'note', text: 'Not linear: the colour grows with the square root of the bytes.' }));
}

function readCell(y, x) {
  cursor = [clamp(y, 0, view.rows - 1), clamp(x, 0, view.columns - 1)];
  const cell = view.cell(...cursor);
  byId('matrix-read').textContent = cell ? cellText(...cell) : 'There is no such receiver.';
  const mark = byId('cells').querySelector('.cursor');
  mark.hidden = false;
  mark.style.cssText = `left:${100 * cursor[1] / view.columns}%;top:${100 * cursor[0] / view.rows}%;` +
    `width:${100 / view.columns}%;height:${100 / view.rows}%`;
}
function cellText(i, j) {
  const within = `${bytes(groups[i].inside)} between devices of one host`;
  return i !== j ? sendsText(i, j)
    : groups[i].hosts > 1 ? `${groupName(i)} send each other ${bytes(bytesFrom(i, i))}; ${within}` : `${groupName(i)}: ${within}`;
}

function noteText() {
  const silent = width - senders.length, deaf = width - receivers.length, several = data.hostsPerGroup > 1;
  const each = several ? `${data.racks.length > 1 ? 'up to ' : ''}${data.hostsPerGroup} hosts, named by the first` : '';
  return (view.band
    ? `Each host sends to few others, near it in the order of names: a column for each sender, a row for each distance.`
    : 'Each row sends, each column receives.') + (several ? ` Each stands for ${each}.` : '') +
    (silent > 0 ? ` Who sends nothing (${count(silent)}) has no ${view.band ? 'column' : 'row'}.` : '') +
    (deaf > 0 && !view.band ? ` Who receives nothing (${count(deaf)}) has no column.` : '') +
    (data.racks.length > 1 ? ' Lines are the borders of racks.' : '') +
    ' A stronger colour is more bytes; an empty cell carries none.';
}

function drawPairs() {
  const pairs = data.matrix.map((n, at) => [n, Math.floor(at / width), at % width]).filter(p => p[0] > 0 && p[1] !== p[2])
    .sort((a, b) => b[0] - a[0]).slice(0, 5);
  for (const [n, i, j] of pairs) {
    row('pairs', head(groupName(i, 12), '', groupName(i, 999)),
      [element('td', { text: groupName(j, 12), title: groupName(j, 999) }), bytes(n)]);
  }
  byId('pairs').closest('details').hidden = pairs.length === 0;
  byId('matrix-read').textContent = pairs.length
    ? `Most: ${sendsText(pairs[0][1], pairs[0][2])}` : 'No byte leaves its host.';
}

function drawWho() {
  drawFlows();
  drawRacks();
  drawPairs();
  byId('matrix').hidden = senders.length === 0;
  if (senders.length === 0) return;
  const band = bandView(), other = byId('matrix-view');
  const show = wanted => {
    drawMatrix(wanted);
    other.textContent = wanted.band ? 'Show the whole matrix' : 'Show the band alone';
    other.onclick = () => show(wanted.band ? wholeView : band);
  };
  other.hidden = !band;
  show(band ?? wholeView);
  drawRamps();
  new ResizeObserver(drawAxes).observe(byId('cells'));
  readBy(byId('matrix'), (rows, columns) => readCell(cursor[0] + rows, cursor[1] + columns), event => {
    const area = byId('cells').getBoundingClientRect();
    const x = (event.clientX - area.left) / area.width, y = (event.clientY - area.top) / area.height;
    if (x >= 0 && y >= 0 && x < 1 && y < 1) readCell(Math.floor(y * view.rows), Math.floor(x * view.columns));
  });
}
