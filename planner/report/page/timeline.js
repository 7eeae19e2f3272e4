
// ---- lanes: what moves in every step, and how busy the NICs of each kind of hosts are ----
const steps = data.steps, end = s.predictedSeconds;
let stepRead = -1;
const windowsOf = step => step.windows > 1 ? `windows ${step.first} to ${step.first + step.windows - 1}` : `window ${step.first}`;

// Steps as one area from `base` on, `height` high: no seams between them.
function area(values, base, height, kind) {
  const x = t => (1000 * t / end).toFixed(2);
  const d = steps.map((step, k) => `V${(base - height * values[k]).toFixed(3)}H${x(step.start + step.seconds)}`).join('');
  return element('path', { class: kind, d: `M0 ${base}${d}V${base}z` });
}

const meanOf = values => sum(steps.map((step, k) => values[k] * step.seconds)) / end;

function lane(names, parts, height) {
  byId('lanes').append(element('div', { class: 'lane', children: [element('p', { class: 'lane-name', children: names }),
    element('div', { class: 'plot', style: `height:${height}px`, children: [shape(1000, 1, parts)] })] }));
}
const across = (y, kind) => element('line', { class: kind, x1: 0, x2: 1000, y1: y, y2: y });

function rateLane(name, key, kind) {
  const rates = steps.map(step => step.seconds > 0 ? step[key] / step.seconds : 0), most = Math.max(...rates);
  if (most === 0) return;
  lane([element('b', { children: [name] }), ` ${bytes(sum(steps.map(step => step[key])))}`,
    element('span', { class: 'both', text: `on average ${rate(meanOf(rates))}, at most ${rate(most)}` })],
  [area(rates.map(r => r / most), 1, 0.9, kind)], 52);
}

// Ingress upwards, egress downwards: the mean, and in a paler shade the busiest host.
function busyLane(kind, k) {
  const of = (key, at) => steps.map(step => step[key][2 * k + at]);
  const [inMean, inMost, outMean, outMost] = [of('in', 0), of('in', 1), of('out', 0), of('out', 1)];
  const top = Math.max(1, ...inMost, ...outMost);
  const [up, down] = [0.45, -0.45].map(height => (values, kind) => area(values.map(v => v / top), 0.5, height, kind));
  const names = [element('b', { text: kindName(kind), title: membersText(kind) }), ...kind.count > 1 ? [` ${membersText(kind)}`] : []];
  const both = box('span', 'both', box('i', 'key in'), `in ${percent(meanOf(inMean))} `, box('i', 'key out'),
    `out ${percent(meanOf(outMean))}`);
  const curves = [up(inMost, 'in pale'), up(inMean, 'in'), down(outMost, 'out pale'), down(outMean, 'out')];
  lane([...names, both], [...curves, across(0.5, 'middle'), across(0.5 - 0.45 / top, 'full'), across(0.5 + 0.45 / top, 'full')], 76);
}

function drawTicks() {
  const step = niceStep(end, innerWidth < 600 ? 3 : 6), ticks = [];
  for (let i = 0; i * step < end * (innerWidth < 600 ? 0.7 : 0.85); ++i) ticks.push(i * step);
  byId('ticks').append(...[...ticks, end].map((t, i) => element('span', { text: seconds(+t.toPrecision(6)),
    class: i === 0 ? 'first' : t === end ? 'last' : undefined, style: `left:${100 * t / end}%` })));
}

function readStep(k) {
  stepRead = clamp(k, 0, steps.length - 1);
  const step = steps[stepRead];
  byId('timeline-read').textContent = `${windowsOf(step)}, from ${seconds(step.start)} on for ${seconds(step.seconds)}: ` +
    `${bytes(step.crossing)} between hosts, ${bytes(step.inside)} inside`;
  const mark = byId('lanes').querySelector('.cursor');
  mark.hidden = false;
  mark.style.cssText = `left:${100 * step.start / end}%;width:${100 * step.seconds / end}%`;
}

function drawTimeline() {
  byId('timeline').hidden = steps.length === 0;
  byId('windows').closest('details').hidden = steps.length === 0;
  if (steps.length === 0) {
    byId('timeline-note').textContent = 'Nothing moves between devices.';
    return;
  }
  byId('timeline-note').append('How much of the ', term('NIC', 'NICs'), ' is used in every ', term('window'),
    ', in (up) and out (down): the mean of hosts that are alike, and paler the busiest of them. The dashed lines are 100 % in all lanes.',
    data.windowsPerStep > 1 ? ` Each step of a curve is ${data.windowsPerStep} windows.` : '');
  byId('timeline').setAttribute('aria-label',
    `Timeline of ${plural(s.windows, 'window')}, ${seconds(end)}; left and right keys read them`);
  rateLane('Between hosts', 'crossing', 'between');
  rateLane(term('inside a host', 'Inside hosts'), 'inside', 'inside');
  data.kinds.forEach(busyLane);
  byId('lanes').append(element('i', { class: 'cursor', hidden: '' }));
  drawTicks();
  for (const step of steps) {
    row('windows', head(windowsOf(step)), [seconds(step.start), seconds(step.seconds), bytes(step.crossing), bytes(step.inside)]);
  }
  readBy(byId('timeline'), (_, columns) => readStep(stepRead + columns), event => {
    const box = byId('lanes').getBoundingClientRect();
    const t = end * (event.clientX - box.left) / box.width;
    const k = steps.findIndex(step => t >= step.start && t < step.start + step.seconds);
    if (k >= 0 && k !== stepRead) readStep(k);
  });
}
