
// ---- title ----
function drawTitle() {
  const { source, target, both } = data.devices;
  const what = data.label || `${plural(data.arrays, 'array')}, ${bytes(data.bytes)}`;
  const same = source === target && both === source;
  const move = same ? `resharded over ${plural(source, 'device')}` : `${count(source)} → ${plural(target, 'device')}`;
  byId('title').append(element('span', { text: `${elide(what, 60)}: `, title: what }), element('span', { class: 'move', text: move }));
  byId('scope').textContent = `${plural(data.arrays, 'array')} of ${bytes(data.bytes)}` +
    (s.totalBytes > data.bytes ? `, ${bytes(s.totalBytes)} with the replicas of the target` : '') + `, ${hostsText(data.hosts)}.`;
  byId('fingerprint').textContent = s.fingerprint;
}
function hostsText({ source, target, both }) {
  if (both === source && both === target) return source === 1 ? 'on one host' : `on the same ${count(source)} hosts`;
  const from = `from ${plural(source, 'host')} to `;
  if (both === 0) return from + plural(target, 'other host');
  if (both === target) return from + (source === target ? 'them' : `${count(target)} of them`);
  const shared = both === source ? 'the former among them' : `${count(both)} of which are the same`;
  return `${from}${count(target)}, ${shared}`;
}

// ---- figures ----
function aboveText() {
  if (s.lowerBoundSeconds === 0) return 'nothing has to cross the network';
  const above = s.predictedSeconds / s.lowerBoundSeconds - 1;
  return above < 0.0005 ? 'no plan is faster' : above < 1 ? `${percent(above)} above the lower bound` : 'bytes are few: see below';
}
function drawFigures() {
  const figures = [
    [term('predicted time', 'Predicted time'), seconds(s.predictedSeconds), aboveText()],
    [term('quality Q', 'Quality Q'), s.quality.toFixed(3),
      s.quality < 1.0005 ? 'no plan has a less busy link' : 'busiest link over the lower bound'],
    [term('crossing', 'Crosses the network'), bytes(s.crossingBytes + s.relayedBytes),
      s.relayedBytes > 0 ? `${bytes(s.relayedBytes)} of it to relays` : s.totalBytes > 0 ? `${percent(s.crossingBytes / s.totalBytes)} of all bytes` : ''],
    [term('peak memory', 'Peak memory'), bytes(s.maxPeakBytes), 'of the fullest device'],
    [term('window', 'Windows'), count(s.windows), `${plural(s.messages, 'message')} in them, inside hosts too; at most ${bytes(s.windowBytes)} in flight a device`],
  ];
  byId('figures').append(...figures.map(([name, value, note]) => element('div', { children: [
    element('dt', { children: [name] }), element('dd', { text: value, children: [element('small', { text: note })] })] })));
  const parts = [['kept', 'kept in place', s.keptBytes, '--kept'], ['inside a host', 'from the same host', s.localBytes, '--inside'],
    ['crossing', 'from other hosts', s.crossingBytes, '--cross']];
  byId('bytes').setAttribute('aria-label',
    `Of ${bytes(s.totalBytes)}: ${parts.map(([, name, n]) => `${bytes(n)} ${name}`).join(', ')}`);
  for (const [name, text, n, colour] of parts) {
    if (n > 0) byId('bytes').append(element('i', { style: `flex:${n} 0 0;background:var(${colour})` }));
    const share = s.totalBytes > 0 ? ` (${percent(n / s.totalBytes)})` : '';
    byId('bytes-legend').append(box('li', undefined, element('i', { style: `background:var(${colour})` }),
      `${bytes(n)} `, term(name, text), share));
  }
}

// ---- times ----
function predictedReason() {
  const above = s.predictedSeconds - s.scheduleSeconds;
  const messages = above > 0.0005 * s.predictedSeconds ? ` Messages cost ${seconds(above)} of it beside their bytes.` : '';
  return scheduleReason() + messages;
}
function scheduleReason() {
  const busiest = Math.max(s.bottleneckSeconds, s.fabricSeconds), price = busiest > 0 ? s.schedulePrice : 0;
  const windows = plural(s.windows, 'window'), binds = s.fabricSeconds > s.bottleneckSeconds ? 'fabric' : 'link';
  if (s.windows === 0) return 'Nothing moves between devices.';
  if (s.scheduleSeconds < 1.05 * s.windowSecondsMin * s.windows && price > 1.05) {
    return `The bytes are few: to start and end a window takes ${seconds(s.windowSecondsMin)}, and there ` +
      (s.windows === 1 ? 'is one.' : `are ${count(s.windows)}.`);
  }
  if (price > 0 && price < 1.0005) return `${windows}, as long as the busiest ${binds} needs.`;
  if (price > 0 && price < 1.5) {
    return `${windows} one after another, ${percent(price - 1)} above its busiest ${binds}: pipelines fill and drain, rounds differ.`;
  }
  return `${windows} one after another: they are short, or differ in what binds.`;
}
// "What binds: the way into 64 hosts alike (h16 … h79)."
function bindingText() {
  const ways = [...data.domains, ...data.kinds].filter(kind => kind.binding).map(kind => {
    const [into, out] = [kind.ingressSeconds, kind.egressSeconds].map(t => t[1] >= s.bottleneckSeconds * 0.998);
    const way = into && out ? 'both ways of' : into ? 'the way into' : 'the way out of';
    return `${way} ${kindName(kind)}${kind.count > 1 ? ` (${membersText(kind)})` : ''}`;
  });
  return ways.length ? ` What binds: ${ways.join('; ')}.` : '';
}
function drawTimes() {
  const most = Math.max(s.predictedSeconds, s.bottleneckSeconds, s.fabricSeconds, s.routingBoundSeconds, s.lowerBoundSeconds) || 1;
  const rows = [['predicted time', 'This plan, predicted', s.predictedSeconds, predictedReason(), '--cross'],
    ['busiest link', 'Its busiest link', s.bottleneckSeconds, `${data.bottleneck}.${bindingText()}`, '--late']];
  if (s.fabricSeconds > 0) {
    rows.push(['busiest fabric', 'Its busiest fabric', s.fabricSeconds,
      `Inside hosts, of one device; no plan that sends hosts only what they lack needs less than ${seconds(s.fabricBoundSeconds)}.`, '--late']);
  }
  if (data.routingCertificate) {
    rows.push(['T0', 'Any plan without third hosts (T0)', s.routingBoundSeconds, data.routingCertificate, '--kept']);
  }
  rows.push(['lower bound', 'Any plan at all (lower bound)', s.lowerBoundSeconds, data.certificate, '--kept']);
  byId('times').append(...rows.map(([name, text, t, reason, colour]) => box('li', undefined,
    term(name, text), element('b', { text: seconds(t) }),
    element('div', { class: 'track', 'aria-hidden': 'true', children: [bar(t / most, colour)] }),
    element('p', { text: reason, id: name.replace(' ', '-') }))));
}

// ---- other strategies ----
function drawStrategies() {
  const most = Math.max(1, ...data.strategies.map(r => r.ratio ?? 1));
  // Ratios that are far apart need a logarithmic scale.
  const far = most > 20;
  if (far) byId('ratio-head').textContent += ' (bars: logarithmic)';
  const length = ratio => ratio === null ? 1 : far ? 0.1 + 0.9 * Math.log(Math.max(ratio, 1)) / Math.log(most) : ratio / most;
  const times = ratio => ratio === null ? '∞' : `${ratio >= 1000 ? count(Math.round(ratio)) : ratio.toFixed(2)} ×`;
  data.strategies.forEach((r, i) => row('strategies', head(r.name, r.how), [bytes(r.crossingBytes), bytes(r.bottleneckBytes),
    seconds(r.seconds), barCell(length(r.ratio), i === 0 ? '--cross' : '--kept', times(r.ratio))]));
}

// ---- hosts and domains ----
function drawDomains() {
  for (const level of data.levels) {
    const kinds = (level.host ? data.kinds : data.domains).filter(kind => kind.level === level.level);
    const name = level.host ? 'Hosts' : data.levels.length > 2 ? `Domains, level ${level.level}` : 'Domains';
    const note = element('small', { text: `${count(level.count)} with traffic; ${bytes(level.egressBytes)} leave them` });
    byId('domains').tBodies[0].append(box('tr', 'level', element('th', { colspan: 6, scope: 'rowgroup',
      children: [level.host ? name : term('domain', name), note] })));
    for (const kind of kinds) {
      const busy = t => element('td', { class: 'number', children: [range(seconds, t),
        ...kind.binding && t[1] >= s.bottleneckSeconds * 0.998 ? [element('small', { class: 'binds', text: 'binds' })] : []] });
      const capacity = range(rate, kind.capacityIn), out = range(rate, kind.capacityOut);
      row('domains', kindHead(kind), [range(bytes, kind.in), busy(kind.ingressSeconds), range(bytes, kind.out), busy(kind.egressSeconds),
        capacity === out ? capacity : `${capacity} in, ${out} out`]);
    }
  }
}
