// What the chosen span holds, and the overview of a run. Everything of a record goes through text nodes.
'use strict';

const LONG = 4000, MANY = 100;

async function copy(text, button) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = el('textarea.unseen');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  button.classList.add('done');
  $('live').textContent = 'Copied';
  setTimeout(() => button.classList.remove('done'), 1200);
}
const copyButton = (what, text) => el('button.quiet.sign.copy', {
  type: 'button', title: `Copy ${what}`, 'aria-label': `Copy ${what}`, onclick: (e) => copy(text(), e.currentTarget),
}, sign('copy'));

// A long text in pieces, at line ends where there are some, so that the browser lays out only those on screen.
function pieces(text, size = 10000) {
  const found = [];
  for (let at = 0; at < text.length;) {
    const line = text.lastIndexOf('\n', at + size), end = line > at ? line + 1 : at + size;
    found.push(el('.piece', {}, text.slice(at, end)));
    at = end;
  }
  return found;
}

// A text as it is; of a long one the beginning, and a button for the rest.
function longText(text, classes = '', most = LONG) {
  const node = el('.text' + classes, { dir: 'auto' }, text.length > most ? text.slice(0, most) : text);
  if (text.length <= most) return node;
  const more = el('button.quiet.more', { type: 'button', onclick: () => { node.replaceChildren(...pieces(text)); more.remove(); } }, `Show all ${many(text.length)} characters`);
  return el('', {}, node, more);
}

// --- JSON, folded: the members of a value are made when it is opened
function jsonValue(text, open) {
  const first = text[0];
  if (first === '"') {
    const value = JSON.parse(text);
    return value.length > 300 || value.includes('\n') ? longText(value, '.j-text', 2000) : el('span.j-string', { dir: 'auto' }, text);
  }
  if (first !== '{' && first !== '[') return el('span.j-plain', {}, text);
  return null;
}

function jsonNode(key, text, open, named) {
  const label = key === null ? null : el('span.' + (named ? 'j-key' : 'j-index'), {}, visibleText(String(key)));
  const leaf = jsonValue(text);
  if (leaf) return el('.j-line', {}, label, label ? ': ' : null, leaf);
  const object = text[0] === '{', body = el('.j-body');
  const size = text.length > 2e5 ? null : members(text).length;
  const count = size === null ? bytes(text.length) : `${size} ${object ? size === 1 ? 'key' : 'keys' : size === 1 ? 'item' : 'items'}`;
  if (size === 0) return el('.j-line', {}, label, label ? ': ' : null, el('span.j-plain', {}, text));
  const toggle = el('button.j-toggle', { type: 'button', 'aria-expanded': 'false' }, sign('fold'), label, label ? ' ' : null,
    el('span.j-count', {}, object ? `{ ${count} }` : `[ ${count} ]`));
  let list = null, shown = 0;
  const more = () => {
    const next = list.slice(shown, shown + MANY);
    body.append(...next.map(([k, v]) => jsonNode(k, v, open - 1, object)));
    shown += next.length;
    if (shown < list.length) {
      const button = el('button.quiet.more', { type: 'button', onclick: () => { button.remove(); more(); } }, `${many(list.length - shown)} more`);
      body.append(button);
    }
  };
  const set = (wanted) => {
    toggle.setAttribute('aria-expanded', wanted);
    body.hidden = !wanted;
    if (wanted && !list) { list = members(text); more(); }
  };
  toggle.addEventListener('click', () => set(body.hidden));
  set(open > 0);
  return el('.j-node', {}, toggle, body);
}

// JSON that stands inside a text (many tools answer so), without the blanks between its tokens; null when it is no object or array.
function inner(value) {
  if (!/^\s*[[{]/.test(value) || value.length > 5e6) return null;
  try { JSON.parse(value); } catch { return null; }
  let out = '';
  for (let at = 0; at < value.length;) {
    const quote = value.indexOf('"', at), stop = quote < 0 ? value.length : quote;
    out += value.slice(at, stop).replace(/\s+/g, '');
    if (quote < 0) break;
    const end = stringEnd(value, quote);
    out += value.slice(quote, end);
    at = end;
  }
  return out;
}

function json(text, what, open = text.length < LONG ? 3 : 1) {
  const string = isText(text) ? JSON.parse(text) : null, nested = string === null ? null : inner(string);
  const shown = nested || text;
  const body = shown[0] === '{' || shown[0] === '[' ? el('.json', {}, jsonNode(null, shown, open, false))
    : string !== null ? longText(string) : el('.json', {}, jsonValue(text));
  return [body, copyButton(what, () => nested ? pretty(nested) : string !== null ? string : pretty(text)), nested ? 'JSON in a text' : null];
}

// --- sections
function section(heading, body, tools, note) {
  return el('section', {}, el('.section-head', {}, el('h3', {}, heading), note ? el('span.note', {}, note) : null, el('.spacer'), tools || null), body);
}
function foldable(heading, make, open, note, tools) {
  const body = el('.folded'), button = el('button.section-toggle', { type: 'button', 'aria-expanded': 'false' }, sign('fold'), heading);
  let made = false;
  const set = (wanted) => {
    button.setAttribute('aria-expanded', wanted);
    body.hidden = !wanted;
    if (wanted && !made) { made = true; body.append(...[make()].flat()); }
  };
  button.addEventListener('click', () => set(body.hidden));
  set(open);
  return el('section', {}, el('.section-head', {}, el('h3', {}, button), note ? el('span.note', {}, note) : null, el('.spacer'), tools || null), body);
}
function jsonSection(heading, text, open = true) {
  const [body, tools, note] = json(text, heading.toLowerCase());
  return foldable(heading, () => body, open, [note, text.length > 2000 ? bytes(text.length) : null].filter(Boolean).join(' · '), tools);
}
const spanLink = (t, r, before) => el('a.span-link.k-' + KINDS[t.kind[r]].code + (isBad(t, r) ? '.bad' : ''), {
  href: address(t, r), 'data-row': r,
}, before ? el('span.note', {}, before) : null, sign(KINDS[t.kind[r]].code, 'icon'), el('span.label', {}, visibleText(nameOf(t, r))),
isBad(t, r) ? sign('error', 'error') : null, el('span.note', {}, t.clock[r] < 2 ? duration(t.length[r]) : ''));
const runAddress = (number) => `#trace=${encodeURIComponent(pageInfo.runs[number].trace)}` + (pageInfo.runs[number].again ? `&again=${pageInfo.runs[number].again}` : '');
const address = (t, r) => runAddress(t.number) + (r < 0 ? '' : `&span=${encodeURIComponent(idOf(t, r))}`);

// Labels and values, in two columns where there is room; long values after the short ones, each on a line of its own.
function factList(pairs) {
  const given = pairs.filter((p) => p[1] !== null && p[1] !== ''), long = ([, value]) => typeof value !== 'string' || value.length > 24;
  return el('dl.facts', {}, [...given.filter((p) => !long(p)), ...given.filter(long)].map((p) => [el('dt', {}, p[0]), el(long(p) ? 'dd.long' : 'dd', { dir: 'auto' }, p[1])]));
}
const asText = (value) => typeof value === 'string' ? visibleText(value) : Array.isArray(value) ? value.map(asText).join(', ') : JSON.stringify(value);

// --- messages as a chat
const ROLE = { user: 'user', assistant: 'assistant', model: 'assistant', tool: 'tool', function: 'tool', system: 'system', developer: 'system' };

function partNode(text, calls) {
  const [letter, ...rest] = items(text), type = JSON.parse(letter), value = (i) => plain(rest[i]);
  if (type === 't') {
    const given = value(0), nested = inner(given);
    return nested ? el('.json', {}, jsonNode(null, nested, nested.length < 1500 ? 2 : 1, false)) : longText(given);
  }
  if (type === 'r') {
    const given = value(0), body = el('.reasoning', {}, longText(given));
    return el('', {}, el('.part-head', {}, el('span.note', {}, 'reasoning')), body);
  }
  if (type === 'c') {
    const name = value(0), id = value(1), row = calls && id !== null ? calls.get(id) : undefined;
    const head = el('.part-head', {}, row === undefined ? [sign('tool', 'icon'), el('b', {}, visibleText(name))] : spanLink(view.t, row), el('.spacer'),
      rest[2] && rest[2] !== 'null' ? copyButton('arguments', () => pretty(rest[2])) : null);
    return el('.call', {}, head, rest[2] && rest[2] !== 'null' ? json(rest[2], 'arguments', rest[2].length < 600 ? 2 : 1)[0] : null);
  }
  if (type === 'R') {
    return el('.call', {}, rest[1] ? json(rest[1], 'result', rest[1].length < 1500 ? 2 : 1)[0] : el('span.note', {}, 'no result'));
  }
  if (type === 'b') return blobNode(value(0), value(1), value(2));
  if (type === 'u') return el('.call', {}, el('span.note', {}, `${asText(value(0))} at `), el('span.mono', { dir: 'auto' }, visibleText(value(1))), copyButton('address', () => value(1)));
  if (type === 'f') return el('.call', {}, el('span.note', {}, `${asText(value(0))} file `), el('span.mono', {}, visibleText(value(1))));
  return el('.call', {}, el('.part-head', {}, el('span.note', {}, value(0) || 'part')), rest[1] ? el('.json', {}, jsonNode(null, rest[1], 1, false)) : null);
}

// Pictures of the four safe kinds are drawn from the record itself; anything else is told by its size.
function blobNode(modality, mime, content) {
  const size = bytes(Math.floor(content.length * 3 / 4));
  if (/^image\/(png|jpeg|gif|webp)$/.test(mime || '') && /^[A-Za-z0-9+/=\s]+$/.test(content)) {
    return el('figure', {}, el('img', { src: `data:${mime};base64,${content}`, alt: `${mime}, ${size}` }));
  }
  return el('.call', {}, el('span.note', {}, `${asText(modality)}${mime ? ', ' + visibleText(mime) : ''}, ${size} `), copyButton('base64', () => content));
}

function messageNode(text, calls) {
  const [role, parts, name, finish, time, source] = items(text);
  const who = JSON.parse(role), reason = plain(finish), said = plain(name), at = plain(time);
  const kind = ROLE[who.toLowerCase()] || 'other';
  return el('.message.m-' + kind, {},
    el('.message-head', {}, el('b', {}, visibleText(who)), said ? el('span', {}, visibleText(said)) : null,
      at ? el('span.note', {}, '+' + duration(Number(BigInt(at) - view.t.base) - view.t.from)) : null,
      reason ? el('span.tag', {}, visibleText(reason)) : null),
    items(parts).map((p) => partNode(p, calls)),
    source ? foldable('Other fields', () => el('.json', {}, jsonNode(null, source, 1, false)), false) : null);
}

function messageList(texts, calls) {
  const list = el('.chat');
  let from = texts.length;
  const more = () => {
    const start = Math.max(0, from - 30);
    const nodes = texts.slice(start, from).map((m) => messageNode(m, calls));
    from = start;
    list.prepend(...nodes);
    if (from > 0) {
      const button = el('button.quiet.more', { type: 'button', onclick: () => { button.remove(); more(); } }, `${many(from)} before these`);
      list.prepend(button);
    }
  };
  more();
  return list;
}

// --- the panel of a span
const TIMES = ['recorded', 'derived: worked out from clocks that the record states', 'synthetic: made up, only the order is true'];

async function spanPanel(t, r) {
  const line = await contentOf(t, r), content = fields(line), kind = KINDS[t.kind[r]], flags = t.flags[r];
  const facts = plain(content.get('f')) || [], error = plain(content.get('e'));
  const out = [];
  const head = el('.panel-head.k-' + kind.code, {},
    el('button.quiet.sign.back', { type: 'button', 'aria-label': 'Back to the tree', onclick: () => closePanel() }, sign('back')),
    sign(kind.code, 'icon'), el('.panel-title', {}, el('.note', {}, kind.name), el('h2', { dir: 'auto' }, visibleText(nameOf(t, r)))),
    el('.spacer'),
    el('button.quiet.sign', { type: 'button', title: 'Zoom to this span (z)', 'aria-label': 'Zoom to this span', onclick: () => zoomTo(r) }, sign('fit')),
    copyButton('link to this span', () => location.href.split('#')[0] + address(t, r)),
    el('button.quiet.sign.wide-only', { type: 'button', title: 'Close (Esc)', 'aria-label': 'Close the details', onclick: () => choose(-1) }, sign('close')));
  head.querySelector('.copy').replaceChildren(sign('link'));
  const path = [];
  for (let up = t.parent[r]; up >= 0; up = t.parent[up]) path.unshift(up);
  if (path.length) {
    out.push(el('nav.path', { 'aria-label': 'Spans above' }, path.map((up, i) => [i ? ' › ' : null, el('a', { href: address(t, up), 'data-row': up }, visibleText(nameOf(t, up)))])));
  }
  const status = isBad(t, r) ? ['bad', 'error'] : t.status[r] === 1 ? ['good', 'ok'] : null;
  const outcome = facts.find(([label]) => t.labels[label] === 'outcome');
  out.push(el('.badges', {},
    status ? el('span.badge.' + status[0], {}, status[0] === 'bad' ? sign('error', 'error') : null, outcome && outcome[1] !== 'error' && status[0] === 'bad' ? outcome[1] : status[1]) : null,
    flags & UNFINISHED ? el('span.badge.warn', {}, sign('open', 'open'), 'unfinished') : null,
    flags & REUSED ? el('span.badge', {}, 'reused from an older run') : null,
    flags & INFERRED ? el('span.badge', { title: 'The record does not mark requests; this one was concluded from the messages.' }, 'inferred') : null,
    t.clock[r] ? el('span.badge.clock-' + CLOCKS[t.clock[r]], {}, `${CLOCKS[t.clock[r]]} times`) : null));
  if (error) {
    out.push(el('.error-box', {}, el('.section-head', {}, sign('error', 'error'), el('b', {}, visibleText(error[0] || 'error')), el('.spacer'),
      error[1] ? copyButton('error', () => error[1]) : null), error[1] ? longText(error[1]) : null));
  }
  out.push(factList([
    ...facts.map(([label, value]) => [t.labels[label], asText(value)]),
    t.by.has(r) ? ['requested by', spanLink(t, t.by.get(r))] : ['', ''],
    ...timesAndTokens(t, r, content),
  ]));
  out.push(...related(t, r, content));
  const scores = items(content.get('S'));
  if (scores.length) out.push(section('Scores', scores.map(scoreNode)));
  if (content.has('z')) out.push(section('Reasoning', el('.reasoning', {}, longText(plain(content.get('z')))), copyButton('reasoning', () => plain(content.get('z')))));
  for (const [key, heading] of [['a', 'Arguments'], ['r', 'Result'], ['i', 'Input'], ['o', 'Output'], ['x', 'Expected']]) {
    if (content.has(key)) out.push(jsonSection(heading, content.get(key)));
  }
  if (t.kind[r] === TOOL && !content.has('r')) out.push(el('p.note', {}, 'The record holds no result.'));
  out.push(...await chat(t, r, content));
  const artifacts = items(content.get('A'));
  if (artifacts.length) out.push(section(`Artifacts`, artifacts.map((a) => artifactNode(t, a)), null, many(artifacts.length)));
  const events = items(content.get('E'));
  if (events.length) out.push(foldable('Events', () => capped(events, (e) => eventNode(t, r, e)), events.length <= 20, many(events.length)));
  if (content.has('p')) out.push(jsonSection('Parameters', content.get('p')));
  if (content.has('d')) out.push(jsonSection('Tool definitions', content.get('d'), false));
  if (content.has('t')) out.push(jsonSection('Attributes', content.get('t')));
  if (content.has('u')) out.push(jsonSection('Other fields of the record', content.get('u'), false));
  out.push(el('p.note.mono.ids', {}, `span ${idOf(t, r)} · trace ${pageInfo.runs[t.number].trace}`));
  return [head, el('.panel-body', {}, out)];
}

// The first of many nodes, the rest on a button.
function capped(texts, make) {
  const box = el('');
  let shown = 0;
  const more = () => {
    box.append(...texts.slice(shown, shown + MANY).map(make));
    shown += MANY;
    if (shown < texts.length) {
      const button = el('button.quiet.more', { type: 'button', onclick: () => { button.remove(); more(); } }, `${many(texts.length - shown)} more`);
      box.append(button);
    }
  };
  more();
  return box;
}

function timesAndTokens(t, r, content) {
  const made = t.clock[r] === 2, start = t.start[r], off = t.unsure.get(r), pairs = [];
  if (isNaN(start)) pairs.push(['start', 'the record does not say']);
  else {
    pairs.push(['start', made ? 'the record does not say' : `${clockTime(t.base + BigInt(Math.round(start)))}`]);
    if (!made) pairs.push(['after', `+${duration(start - t.from)} in the run`]);
  }
  if (t.clock[r] !== 2) pairs.push(['duration', isNaN(t.length[r]) ? 'no end in the record' : (t.clock[r] ? '~' : '') + duration(t.length[r]) + (off ? ` ± ${duration(off)}` : '')]);
  pairs.push(['times', TIMES[t.clock[r]]]);
  if (content.has('w')) pairs.push(['first token', `after ${duration(plain(content.get('w')))}`]);
  const chunks = items(content.get('c'));
  if (chunks.length) pairs.push(['streamed', streamed(chunks)]);
  const usage = plain(content.get('U'));
  if (usage) {
    const [input, output, read, write, reasoning, total, cost] = usage;
    const add = (label, value) => { if (value !== null) pairs.push([label, many(value)]); };
    if (t.kind[r] !== MODEL) pairs.push(['tokens', 'as the record sums them up']);
    add('tokens in', input); add('from cache', read); add('into cache', write); add('tokens out', output); add('of them reasoning', reasoning); add('tokens in all', total);
    if (cost !== null) pairs.push(['cost', `$${cost}`]);
  }
  return pairs;
}

function streamed(chunks) {
  const list = chunks.map((c) => JSON.parse(c)), timed = list.filter((c) => c[0] !== null);
  const sum = list.reduce((n, c) => n + c[1], 0);
  return `${many(list.length)} pieces, ${many(sum)} characters` + (timed.length > 1 ? ` over ${duration(timed[timed.length - 1][0] - timed[0][0])}` : '');
}

const BACK = {
  retry_of: 'retried by', read_from: 'read by', continuation_of: 'continued by', reused_from: 'reused by', part_of: 'has part', follows: 'followed by', nested_run: 'nested in',
};

// Links of both directions, calls that a request asked for, runs inside.
function related(t, r, content) {
  const rows = [];
  for (const text of items(content.get('L'))) {
    const [type, trace, span, attributes] = JSON.parse(text), target = pageInfo.runs[t.number].trace === trace ? t.row.get(span) : undefined;
    const known = pageInfo.runs.findIndex((run) => run.trace === trace);
    rows.push(target !== undefined ? spanLink(t, target, type.replace(/_/g, ' '))
      : el('.span-link', {}, el('span.note', {}, visibleText(type.replace(/_/g, ' '))), known >= 0
        ? el('a', { href: `#trace=${encodeURIComponent(trace)}&span=${encodeURIComponent(span)}` }, `${visibleText(pageInfo.runs[known].name)}, span ${visibleText(span)}`)
        : el('span.mono', {}, visibleText(`${span} in trace ${trace}, not in this page`)),
      attributes ? el('span.note', {}, visibleText(JSON.stringify(attributes))) : null));
  }
  for (const [from, type] of (t.linked.get(r) || []).slice(0, MANY)) rows.push(spanLink(t, from, BACK[type] || `${type.replace(/_/g, ' ')} (of this)`));
  const out = rows.length ? [section('Links', el('.links', {}, rows))] : [];
  const calls = t.asked.get(r) || [];
  if (calls.length) out.push(section('Asked for', el('.links', {}, calls.slice(0, MANY).map((row) => spanLink(t, row)))));
  const runs = [];
  for (let row = r + 1; row < t.end[r] && runs.length < MANY; row++) if (t.kind[row] === RUN) { runs.push(row); row = t.end[row] - 1; }
  if (runs.length) out.push(section(t.kind[r] === RUN ? 'Runs inside' : 'Nested runs', el('.links', {}, runs.map((row) => spanLink(t, row)))));
  return out;
}

async function chat(t, r, content) {
  const out = [], system = items(content.get('s')), input = items(content.get('m')), output = items(content.get('M'));
  const calls = new Map();
  await Promise.all((t.asked.get(r) || []).map(async (row) => {
    const facts = plain(fields(await contentOf(t, row)).get('f')) || [], id = facts.find(([label]) => t.labels[label] === 'call id');
    if (id) calls.set(id[1], row);
  }));
  if (system.length) out.push(foldable('System instructions', () => el('.chat', {}, el('.message.m-system', {}, system.map((p) => partNode(p)))), false, null));
  const history = plain(content.get('h'));
  if (history && history[1]) {
    const box = el('.earlier'), count = history[1];
    let most = 30;
    const show = async () => {
      const found = await earlier(t, r, most);
      box.replaceChildren(...[
        found.missing ? el('p.note', {}, 'The request that holds the messages before these is not in this page.') : null,
        !found.missing && found.messages.length < count ? el('button.quiet.more', { type: 'button', onclick: () => { most += 60; show(); } }, `${many(count - found.messages.length)} before these`) : null,
        el('.chat', {}, found.messages.map((m) => messageNode(m, calls))),
      ].filter(Boolean));
    };
    out.push(foldable(`Earlier messages`, () => { show(); return box; }, false, many(count)));
  }
  if (input.length) out.push(section(t.kind[r] === ATTEMPT ? 'Messages' : history ? 'New messages' : 'Messages', messageList(input, calls), null, many(input.length)));
  if (output.length) out.push(section('Answer', messageList(output, calls)));
  return out;
}

function scoreNode(text) {
  const [name, value, label, explanation, source] = items(text), v = plain(value);
  const meter = v !== null && v >= 0 && v <= 1 ? el('span.meter', { 'aria-hidden': 'true' }, el('i')) : null;
  if (meter) meter.firstChild.style.width = `${v * 100}%`;
  return el('.score', {}, el('.section-head', {}, el('b', {}, visibleText(plain(name))), meter, v !== null ? el('span.mono', {}, value) : null, plain(label) ? el('span.tag', {}, visibleText(plain(label))) : null),
    plain(explanation) ? longText(plain(explanation)) : null, source ? foldable('Other fields', () => el('.json', {}, jsonNode(null, source, 1, false)), false) : null);
}

function artifactNode(t, text) {
  const [facts, payload, created, source] = items(text), f = JSON.parse(facts), body = el('.artifact');
  const { id, type, title, operation, size, ...rest } = f;
  body.append(el('.section-head', {}, el('b', { dir: 'auto' }, visibleText(title || id)), type ? el('span.tag', {}, visibleText(type)) : null,
    operation && operation !== 'create' ? el('span.tag', {}, visibleText(operation)) : null, el('.spacer'), size !== undefined ? el('span.note', {}, bytes(size)) : null));
  body.append(factList([['id', visibleText(id)], ...Object.entries(rest).map(([k, v]) => [k.replace(/_/g, ' '), asText(v)]),
    ...(plain(created) ? [['created', clockTime(BigInt(plain(created)))]] : [])]));
  if (payload && payload !== 'null') body.append(jsonSection('Payload', payload, payload.length < LONG));
  if (source) body.append(jsonSection('Other fields', source, false));
  return body;
}

function eventNode(t, r, text) {
  const [name, time, attributes, source] = items(text), at = plain(time);
  return el('.event', {}, el('.section-head', {}, el('b', {}, visibleText(plain(name))), el('span.note', {}, at === null ? 'no time' : '+' + duration(Number(BigInt(at) - t.base) - t.from))),
    attributes && attributes !== 'null' ? el('.json', {}, jsonNode(null, attributes, attributes.length < 400 ? 2 : 0, false)) : null,
    source ? el('.json', {}, jsonNode(null, source, 0, false)) : null);
}

// --- the overview of a run
function overviewPanel(t) {
  const run = pageInfo.runs[t.number], out = [], time = timeByKind(t);
  const head = el('.panel-head', {}, el('button.quiet.sign.back', { type: 'button', 'aria-label': 'Back to the tree', onclick: () => closePanel() }, sign('back')),
    el('.panel-title', {}, el('.note', {}, 'overview'), el('h2', { dir: 'auto' }, visibleText(run.name))));
  if (time.known) {
    const parts = [['model', 'model requests', time.model], ['both', 'both at once', time.both], ['tool', 'tool calls', time.tool], ['rest', 'neither', time.rest]].filter((p) => p[2] > 0);
    const bar = el('.share', { role: 'img', 'aria-label': parts.map(([, label, ns]) => `${label} ${duration(ns)}`).join(', ') }, parts.map(([code, , ns]) => {
      const piece = el('i.share-' + code);
      piece.style.flexGrow = ns / time.whole;
      return piece;
    }));
    out.push(section('Time by kind', [bar, el('ul.share-legend', {}, parts.map(([code, label, ns]) =>
      el('li', {}, el('i.dot.share-' + code), label, el('span.note', {}, ` ${duration(ns)} · ${Math.round(ns / time.whole * 100)} %`))))], null, `of ${duration(time.whole)}`));
  }
  const bad = [], ERRORS = 50;
  for (let r = 0; r < t.n; r++) if (isBad(t, r)) bad.push(r);
  if (bad.length) {
    out.push(section('Errors', [el('.links', {}, bad.slice(0, ERRORS).map((r) => {
      const error = t.error.get(r), link = spanLink(t, r);
      if (error) link.append(el('span.why', {}, visibleText([error[0], error[1]].filter(Boolean).join(': '))));
      return link;
    })), bad.length > ERRORS ? el('p.note', {}, `and ${many(bad.length - ERRORS)} more: filter by status`) : null], null, many(bad.length)));
  }
  const slow = slowest(t, 8);
  if (slow.length) {
    const most = t.length[slow[0]];
    out.push(section('Slowest calls', el('.links', {}, slow.map((r) => {
      const link = spanLink(t, r), meter = el('span.meter', { 'aria-hidden': 'true' }, el('i'));
      meter.firstChild.style.width = `${t.length[r] / most * 100}%`;
      link.append(meter);
      return link;
    }))));
  }
  out.push(...byName(t, MODEL, 'Models'), ...byName(t, TOOL, 'Tools'));
  out.push(section('Record', factList([
    ['producer', run.family], ['read as', run.format], ['input', visibleText(run.input || '')], ['run key', visibleText(run.key.join(' · '))], ['trace', run.trace],
    ['start', run.start !== null ? clockTime(BigInt(run.start)) : null],
    ['times', ['recorded', 'derived', 'synthetic'].filter((c) => run.clock[c]).map((c) => `${many(run.clock[c])} ${c}`).join(', ')],
    ...Object.entries(run.resource).map(([k, v]) => [k, asText(v)]),
    ['redacted', pageInfo.redacted === null ? 'no secrets were looked for' : `${many(pageInfo.redacted)} ${pageInfo.redacted === 1 ? 'value' : 'values'} in this page`],
    ['page made', pageInfo.made.replace('T', ' ').replace('+00:00', ' UTC')],
  ])));
  if (pageInfo.notices.length) out.push(noticeList());
  return [head, el('.panel-body', {}, out)];
}

function noticeList() {
  return foldable('Notes of the reader', () => el('ul.notices', {}, pageInfo.notices.map(([severity, text, input]) =>
    el('li', {}, el('span.badge.' + (severity === 'lost' ? 'bad' : 'warn'), {}, severity), ' ', input && pageInfo.runs.length > 1 ? `${visibleText(input)}: ` : '', visibleText(text)))), true, many(pageInfo.notices.length));
}

// Requests by model, calls by tool: how many, how long in sum, how many errors, tokens.
function byName(t, kind, heading) {
  const found = new Map();
  for (let r = 0; r < t.n; r++) {
    if (t.kind[r] !== kind) continue;
    const name = nameOf(t, r), row = found.get(name) || { count: 0, time: 0, timed: 0, bad: 0, input: null, output: null };
    found.set(name, row);
    row.count++;
    if (isBad(t, r)) row.bad++;
    if (t.clock[r] < 2 && t.length[r] >= 0) { row.time += t.length[r]; row.timed++; }
    for (const side of ['input', 'output']) {
      const n = t.flags[r] & REUSED ? null : t[side].get(r);
      if (n !== undefined && n !== null) row[side] = (row[side] || 0) + n;
    }
  }
  if (!found.size) return [];
  const list = [...found].sort((a, b) => b[1].time - a[1].time || b[1].count - a[1].count).slice(0, 12), tokens = kind === MODEL && list.some(([, x]) => x.input !== null);
  return [section(heading, el('.scroll-x', {}, el('table', {},
    el('thead', {}, el('tr', {}, ['name', 'calls', 'time', tokens ? 'tokens' : null, 'errors'].filter(Boolean).map((h) => el('th', { scope: 'col' }, h)))),
    el('tbody', {}, list.map(([name, x]) => el('tr', {}, el('td', { dir: 'auto' }, visibleText(name)), el('td', {}, many(x.count)), el('td', {}, x.timed ? duration(x.time) : '–'),
      tokens ? el('td', {}, x.input === null ? '–' : `${short(x.input)} → ${short(x.output)}`) : null, el('td' + (x.bad ? '.bad-text' : ''), {}, x.bad ? many(x.bad) : '–')))))), null, found.size > 12 ? `12 of ${many(found.size)}` : many(found.size))];
}
