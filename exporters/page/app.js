// The page itself: which run, which span, filters and search, keyboard, theme, the address.
'use strict';

let pageInfo = null;
const state = { kinds: new Set(), status: '', tool: '', model: '', attempt: '', query: '', hits: null, search: 0 };
const traces = new Map();

async function traceAt(number) {
  if (!traces.has(number)) traces.set(number, traceOf(JSON.parse(await unpack('i' + number)), number));
  if (traces.size > 4) traces.delete([...traces.keys()].find((n) => n !== number));
  return traces.get(number);
}

// --- the address: #trace=ID&span=ID, with `again` for a second copy of a trace in the page
function place() {
  const given = new URLSearchParams(location.hash.slice(1)), trace = given.get('trace');
  const again = Number(given.get('again') || 0), number = trace === null ? -1 : pageInfo.runs.findIndex((run) => run.trace === trace && run.again === again);
  return { number: number < 0 && pageInfo.runs.length === 1 ? 0 : number, span: given.get('span') };
}

let going = 0;
async function go() {
  const mine = ++going, { number, span } = place();
  if (number < 0) return showRuns();
  if (!view.t || view.t.number !== number || $('trace').hidden) {
    $('opening').hidden = false;
    const t = await traceAt(number);
    if (mine !== going) return undefined;
    openTrace(t);
  }
  const r = span === null ? -1 : view.t.row.get(span);
  if (r === undefined) $('live').textContent = 'The span of this link is not in the page';
  return shown(r === undefined ? -1 : r);
}

function goTo(r, keep) {
  if (r >= 0 && view.t.row.get(idOf(view.t, r)) !== r) return shown(r); // another span has its id: it has no address
  const hash = address(view.t, r);
  if (hash === location.hash) return shown(r);
  if (keep) { history.replaceState(null, '', hash); return shown(r); }
  location.hash = hash;
  return undefined;
}
const choose = (r, keep) => goTo(r, keep);

let drawing = 0;
async function shown(r) {
  const t = view.t, mine = ++drawing;
  if (r >= 0) unhide(r);
  markChosen(r);
  const nodes = r < 0 ? overviewPanel(t) : await spanPanel(t, r);
  if (mine !== drawing) return;
  $('panel').replaceChildren(...nodes);
  $('panel').scrollTop = 0;
  $('panel').dataset.row = r;
}

// What hides the row is taken away: folds above it, then filters.
function unhide(r) {
  const t = view.t;
  let changed = false;
  for (let up = t.parent[r]; up >= 0; up = t.parent[up]) changed = view.folded.delete(up) || changed;
  if (changed) refresh();
  if (!view.place.has(r)) clearFilters();
}

const openPanel = () => document.body.classList.add('details');
const closePanel = () => { document.body.classList.remove('details'); $('tree').focus({ preventScroll: true }); };

function openTrace(t) {
  const run = pageInfo.runs[t.number];
  document.body.classList.remove('details');
  $('runs').hidden = true; $('opening').hidden = true; $('trace').hidden = false; $('to-overview').hidden = false;
  $('to-runs').hidden = pageInfo.runs.length < 2;
  document.title = `${run.name} · spanport`;
  $('name').textContent = visibleText(run.name);
  $('name').title = visibleText(run.name);
  view.t = t; view.chosen = -1; view.folded = new Set(); view.fits = null;
  view.from = t.from; view.to = t.to;
  Object.assign(state, { kinds: new Set(), status: '', tool: '', model: '', attempt: '', query: '', hits: null });
  $('query').value = ''; $('found').textContent = '';
  $('badges').replaceChildren(...verdictBadges(run));
  drawTotals(t, run);
  fillFilters(t);
  $('tree').scrollTop = 0;
  refresh();
  setTime(t.from, t.to);
  $('tree').focus({ preventScroll: true });
}

function verdictBadges(run) {
  const tone = { pass: 'good', completed: 'good', fail: 'bad', failed: 'bad', error: 'bad' };
  const bad = (word) => tone[word] || (run.bad ? 'bad' : 'plain');
  return [
    run.verdict && run.verdict !== 'unknown' ? el('span.badge.' + bad(run.verdict), {}, run.verdict) : null,
    run.ending ? el('span.badge.' + (tone[run.ending] && !(tone[run.ending] === 'good' && run.bad) ? tone[run.ending] : run.bad ? 'bad' : 'plain'), {}, visibleText(run.ending.replace(/_/g, ' '))) : run.bad ? el('span.badge.bad', {}, sign('error', 'error'), 'error') : null,
    run.unfinished ? el('span.badge.warn', {}, sign('open', 'open'), 'unfinished') : null,
  ].filter(Boolean);
}

const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

function drawTotals(t, run) {
  const tile = (label, value, note, action, tone = '') => el((action ? 'button.tile' : '.tile') + tone, action ? { type: 'button', onclick: action } : {},
    el('span.tile-label', {}, label), el('span.tile-value', {}, value, note ? el('span.tile-note', {}, note) : null));
  const counted = (kind, label) => run.spans[kind] ? tile(label, many(run.spans[kind]), run.errors[kind] ? `${many(run.errors[kind])} failed` : null) : null;
  const k = run.tokens, errors = sum(run.errors), slow = slowest(t, 1)[0], time = timeByKind(t), made = !run.clock.recorded && !run.clock.derived;
  const tiles = [
    tile('Duration', run.length === null || made ? '–' : duration(run.length), made ? 'times made up' : null),
    counted('task', 'Tasks'), run.spans.attempt > 1 ? counted('attempt', 'Attempts') : null, counted('model_request', 'Requests'), counted('tool_call', 'Tool calls'),
    k.input !== undefined || k.output !== undefined ? tile('Tokens in → out', `${short(k.input)} → ${short(k.output)}`, k.cache_read ? `${short(k.cache_read)} cached` : null) : null,
    run.cost !== null ? tile('Cost', `$${run.cost.toPrecision(3)}`) : null,
    tile('Errors', many(errors), null, errors ? () => nextBad(1) : null, errors ? '.bad-text' : ''),
    slow !== undefined ? tile('Slowest', duration(t.length[slow]), visibleText(nameOf(t, slow)), () => { openPanel(); choose(slow); }) : null,
  ];
  if (time.known) {
    const bar = el('.share', {}, ['model', 'both', 'tool', 'rest'].filter((c) => time[c] > 0).map((c) => { const i = el('i.share-' + c); i.style.flexGrow = time[c] / time.whole; return i; }));
    const percent = (ns) => `${Math.round(ns / time.whole * 100)} %`;
    tiles.push(el('.tile.tile-share', {}, el('span.tile-label', {}, 'Time by kind'), bar,
      el('span.tile-note', {}, [['models', time.model + time.both], ['tools', time.tool + time.both]].filter((p) => p[1]).map(([name, ns]) => `${name} ${percent(ns)}`).join(' · '))));
  }
  $('totals').replaceChildren(...tiles.filter(Boolean));
}

// --- filters
function fillFilters(t) {
  const counts = KINDS.map(() => 0), tools = new Map(), models = new Map(), attempts = [], statuses = { error: 0, ok: 0, unfinished: 0, other: 0, unrecorded: 0 };
  for (let r = 0; r < t.n; r++) {
    counts[t.kind[r]]++;
    if (t.kind[r] === TOOL) tools.set(t.name[r], (tools.get(t.name[r]) || 0) + 1);
    if (t.model[r] >= 0) models.set(t.model[r], (models.get(t.model[r]) || 0) + 1);
    if (t.kind[r] === ATTEMPT) attempts.push(r);
    for (const status in statuses) if (STATUS[status][1](t, r)) statuses[status]++;
  }
  $('kinds').replaceChildren(...KINDS.map((kind, i) => counts[i] ? el(`button.kind.k-${kind.code}`, {
    type: 'button', 'aria-pressed': 'false', 'data-kind': i, title: `Only ${kind.many}`, 'aria-label': `Only ${kind.many}: ${counts[i]}`,
    onclick: (e) => { const on = !state.kinds.delete(i); if (on) state.kinds.add(i); e.currentTarget.setAttribute('aria-pressed', on); filter(); },
  }, sign(kind.code, 'icon'), el('span.count', {}, short(counts[i]))) : null).filter(Boolean));
  const options = (select, all, list) => {
    select.replaceChildren(el('option', { value: '' }, all), ...list.map(([value, label, count]) => el('option', { value }, `${label.length > 60 ? label.slice(0, 59) + '…' : label}${count ? ` (${many(count)})` : ''}`)));
    select.hidden = list.length < 1;
    select.value = '';
  };
  const named = (counted) => [...counted].map(([w, count]) => [w, visibleText(word(t, w)), count]).sort((a, b) => a[1].localeCompare(b[1]));
  options($('by-status'), 'Any status', Object.keys(STATUS).filter((s) => statuses[s]).map((s) => [s, STATUS[s][0], statuses[s]]));
  options($('by-tool'), 'All tools', named(tools));
  options($('by-model'), 'All models', named(models));
  options($('by-attempt'), 'All attempts', attempts.length < 2 ? [] : attempts.map((r) => {
    let up = t.parent[r];
    while (up >= 0 && t.kind[up] !== TASK && t.kind[up] !== RUN) up = t.parent[up];
    return [r, visibleText((up >= 0 && t.parent[up] >= 0 ? nameOf(t, up) + ' · ' : '') + nameOf(t, r))];
  }));
}

const STATUS = {
  error: ['Errors', (t, r) => isBad(t, r)],
  ok: ['OK', (t, r) => t.status[r] === 1 && !isBad(t, r)],
  other: ['No status', (t, r) => t.status[r] === 0 && !isBad(t, r)],
  unfinished: ['Unfinished', (t, r) => (t.flags[r] & UNFINISHED) !== 0],
  unrecorded: ['Times not recorded', (t, r) => t.clock[r] !== 0],
};

const filtered = () => state.kinds.size > 0 || state.status || state.tool || state.model || state.attempt || state.hits;

// The rows that fit all filters, or null without any.
function fitting(t) {
  if (!filtered()) return null;
  const fits = new Uint8Array(t.n), attempt = state.attempt === '' ? -1 : Number(state.attempt);
  for (let r = 0; r < t.n; r++) {
    if (state.kinds.size && !state.kinds.has(t.kind[r])) continue;
    if (state.status && !STATUS[state.status][1](t, r)) continue;
    if (state.tool !== '' && !(t.kind[r] === TOOL && t.name[r] === Number(state.tool))) continue;
    if (state.model !== '' && t.model[r] !== Number(state.model)) continue;
    if (attempt >= 0 && !(r >= attempt && r < t.end[attempt])) continue;
    if (state.hits && !state.hits[r]) continue;
    fits[r] = 1;
  }
  return fits;
}

function refresh() { showRows(visible(view.t, view.fits, view.folded)); }

function filter() {
  const had = view.fits !== null;
  view.fits = fitting(view.t);
  if (view.fits || had) view.folded = new Set();
  refresh();
  const count = view.fits ? view.fits.reduce((a, b) => a + b, 0) : 0;
  $('clear').hidden = !view.fits;
  $('to-filters').classList.toggle('on', Boolean(filtered()));
  $('found').textContent = state.query ? `${many(count)}${state.searching < 1 ? '…' : ''}` : '';
  markFound();
  if (view.fits) $('live').textContent = `${many(count)} ${count === 1 ? 'span fits' : 'spans fit'}`;
}

function clearFilters() {
  state.search++;
  Object.assign(state, { kinds: new Set(), status: '', tool: '', model: '', attempt: '', query: '', hits: null });
  $('query').value = '';
  for (const id of ['by-status', 'by-tool', 'by-model', 'by-attempt']) $(id).value = '';
  for (const button of $('kinds').children) button.setAttribute('aria-pressed', 'false');
  filter();
  if (view.chosen >= 0 && view.place.has(view.chosen)) treeList.reveal(view.place.get(view.chosen));
}

let typing = 0;
$('query').addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(find, 150); });
async function find() {
  const query = $('query').value.trim(), mine = ++state.search, t = view.t;
  state.query = query; state.searching = 0;
  if (!query) { state.hits = null; filter(); return; }
  await search(t, query, (hits, share) => {
    if (mine !== state.search || t !== view.t) return;
    state.hits = hits; state.searching = share;
    filter();
  }, () => mine === state.search && t === view.t);
}
for (const name of ['status', 'tool', 'model', 'attempt']) {
  $('by-' + name).addEventListener('change', (e) => { state[name] = e.target.value; filter(); });
}
$('clear').addEventListener('click', clearFilters);
$('none-clear').addEventListener('click', clearFilters);

// --- moving
onChoose = (r, open) => { if (open) openPanel(); choose(r); };
onFold = (r) => {
  if (view.t.end[r] === r + 1) return;
  if (!view.folded.delete(r)) view.folded.add(r);
  refresh();
};
function move(by) {
  const now = view.place.get(view.chosen) ?? (by > 0 ? -1 : view.rows.length);
  const position = Math.max(0, Math.min(view.rows.length - 1, now + by));
  if (view.rows.length) choose(view.rows[position], true);
}
function nextWhere(step, test) {
  const t = view.t;
  for (let i = 1, r = view.chosen; i <= t.n; i++) {
    r = r < 0 ? (step > 0 ? 0 : t.n - 1) : (r + step + t.n) % t.n;
    if (test(r)) { choose(r, true); return; }
  }
}
const nextBad = (step) => nextWhere(step, (r) => isBad(view.t, r));
const nextMatch = (step) => view.fits && nextWhere(step, (r) => view.fits[r]);

function treeKey(e) {
  const t = view.t, r = view.chosen, page = Math.max(1, Math.floor($('tree').clientHeight / rowHeight()) - 2);
  if (e.shiftKey && (e.key === 'ArrowLeft' || e.key === 'ArrowRight')) return pan(e.key === 'ArrowLeft' ? -0.2 : 0.2);
  switch (e.key) {
    case 'ArrowDown': return move(1);
    case 'ArrowUp': return move(-1);
    case 'PageDown': return move(page);
    case 'PageUp': return move(-page);
    case 'Home': return move(-Infinity);
    case 'End': return move(Infinity);
    case 'ArrowRight': if (r < 0) return move(1); return view.folded.has(r) ? onFold(r) : t.end[r] > r + 1 ? move(1) : undefined;
    case 'ArrowLeft': if (r < 0) return undefined; return t.end[r] > r + 1 && !view.folded.has(r) ? onFold(r) : t.parent[r] >= 0 ? choose(t.parent[r], true) : undefined;
    case ' ': return r >= 0 ? onFold(r) : undefined;
    case 'Enter': openPanel(); $('panel').focus({ preventScroll: true }); return undefined;
    default: return false;
  }
}
const KEYS = {
  '/': () => { $('query').focus(); $('query').select(); },
  '?': () => $('help').showModal(),
  n: () => nextMatch(1), p: () => nextMatch(-1), e: () => nextBad(1), E: () => nextBad(-1),
  '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1 / 0.6), '−': () => zoom(1 / 0.6), 0: () => setTime(view.t.from, view.t.to),
  z: () => view.chosen >= 0 && zoomTo(view.chosen), o: () => { openPanel(); choose(-1); }, t: () => nextTheme(),
};
document.addEventListener('keydown', (e) => {
  if ($('help').open || e.ctrlKey || e.metaKey || e.altKey) return;
  const at = e.target, field = at.matches('input, select, textarea');
  if (!$('runs').hidden) { if (e.key === '/' && !field) { $('runs-query').focus(); e.preventDefault(); } else if (e.key === 't' && !field) nextTheme(); else if (e.key === '?' && !field) $('help').showModal(); return; }
  if (!view.t) return;
  if (at === $('tree')) {
    if (treeKey(e) !== false) { e.preventDefault(); return; }
  }
  if (e.key === 'Escape') {
    if (at === $('query')) { $('query').value = ''; find(); $('tree').focus(); }
    else if ($('panel').contains(at)) closePanel();
    else if (at === $('tree') && view.fits) clearFilters();
    else if (at === $('tree')) { document.body.classList.remove('details'); choose(-1); }
    else $('tree').focus();
    e.preventDefault();
  } else if (at === $('query') && (e.key === 'Enter' || e.key === 'ArrowDown')) {
    e.preventDefault();
    $('tree').focus();
    if (view.fits && !(view.chosen >= 0 && view.fits[view.chosen])) { view.chosen = -1; nextMatch(1); }
  } else if (!field && KEYS[e.key]) { e.preventDefault(); KEYS[e.key](); }
});

// What the search found, marked in the panel. The marks are no part of the document.
function markFound() {
  if (!('highlights' in CSS)) return;
  CSS.highlights.delete('found');
  const wanted = state.query.toLowerCase(), ranges = [], walker = document.createTreeWalker($('panel'), NodeFilter.SHOW_TEXT);
  while (wanted && ranges.length < 500 && walker.nextNode()) {
    const node = walker.currentNode, text = node.data.toLowerCase();
    if (text.length !== node.data.length) continue;
    for (let at = text.indexOf(wanted); at >= 0 && ranges.length < 500; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at); range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  if (ranges.length) CSS.highlights.set('found', new Highlight(...ranges));
}
let marking = 0;
new MutationObserver(() => { cancelAnimationFrame(marking); marking = requestAnimationFrame(markFound); }).observe($('panel'), { childList: true, subtree: true });

// Links to spans in the panel move without leaving the tree's place in history.
$('panel').addEventListener('click', (e) => {
  const link = e.target.closest('a[data-row]');
  if (!link || e.ctrlKey || e.metaKey || e.shiftKey) return;
  e.preventDefault();
  choose(Number(link.dataset.row));
});

$('fold-all').addEventListener('click', () => {
  for (let r = 0; r < view.t.n; r++) if (view.t.end[r] > r + 1 && view.t.depth[r] > 0) view.folded.add(r);
  if (view.chosen >= 0) while (view.t.depth[view.chosen] > 1) view.chosen = view.t.parent[view.chosen];
  refresh();
  if (view.chosen >= 0) choose(view.chosen, true);
});
$('unfold-all').addEventListener('click', () => { view.folded = new Set(); refresh(); });
$('zoom-in').addEventListener('click', KEYS['+']);
$('zoom-out').addEventListener('click', KEYS['-']);
$('zoom-fit').addEventListener('click', KEYS[0]);
$('to-help').addEventListener('click', () => $('help').showModal());
$('to-filters').addEventListener('click', () => $('to-filters').setAttribute('aria-expanded', document.body.classList.toggle('filters')));
$('to-overview').addEventListener('click', KEYS.o);
$('to-runs').addEventListener('click', () => { location.hash = ''; });

// --- the width of the details
const setSplit = (share) => {
  share = Math.max(20, Math.min(75, share));
  $('main').style.setProperty('--panel', `${share}%`);
  $('split').setAttribute('aria-valuenow', Math.round(share));
};
$('split').addEventListener('pointerdown', (down) => {
  $('split').setPointerCapture(down.pointerId);
  const move = (e) => { const box = $('main').getBoundingClientRect(); setSplit((box.right - e.clientX) / box.width * 100); };
  $('split').addEventListener('pointermove', move);
  $('split').addEventListener('pointerup', () => $('split').removeEventListener('pointermove', move), { once: true });
});
$('split').addEventListener('keydown', (e) => {
  const by = { ArrowLeft: 3, ArrowRight: -3 }[e.key];
  if (by) { e.preventDefault(); setSplit(Number($('split').getAttribute('aria-valuenow')) + by); }
});

// --- light and dark: as the system says, or as the switch does
const THEMES = ['system', 'light', 'dark'];
function setTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  $('theme').setAttribute('aria-label', theme === 'system' ? 'Theme: as the system' : `Theme: ${theme}`);
  $('theme').title = `${$('theme').getAttribute('aria-label')} (t)`;
  mapLater();
}
function nextTheme() {
  const now = document.documentElement.dataset.theme || 'system', next = THEMES[(THEMES.indexOf(now) + 1) % 3];
  setTheme(next);
  $('live').textContent = $('theme').getAttribute('aria-label');
  try { localStorage.setItem('spanport-theme', next); } catch { /* a page without storage forgets */ }
}
$('theme').addEventListener('click', nextTheme);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', mapLater);
narrow.addEventListener('change', () => { if (view.t) { treeList.refresh(); drawScale(); mapLater(); } });

// --- the list of runs
const runsShown = { rows: [], chosen: 0, sort: '', down: false };
const runsList = virtualList($('runs-list'), () => narrow.matches ? 64 : 40, () => el('.row.runs-row', { role: 'option' }), fillRun);
const COLUMNS = [
  ['name', 'Run', (run) => run.name], ['length', 'Duration', (run) => run.length], ['spans', 'Spans', (run) => sum(run.spans)], ['errors', 'Errors', (run) => sum(run.errors)],
  ['tokens', 'Tokens', (run) => run.tokens.input === undefined && run.tokens.output === undefined ? null : (run.tokens.input || 0) + (run.tokens.output || 0)],
  ['start', 'Start', (run) => run.start === null ? null : Number(run.start)], ['input', 'Input', (run) => run.input],
];

function fillRun(row, position) {
  const number = runsShown.rows[position], run = pageInfo.runs[number], errors = sum(run.errors);
  row.run = number;
  row.id = 'run' + number;
  row.className = 'row runs-row' + (position === runsShown.chosen ? ' chosen' : '');
  row.setAttribute('aria-selected', position === runsShown.chosen);
  row.setAttribute('aria-posinset', position + 1);
  row.setAttribute('aria-setsize', runsShown.rows.length);
  row.replaceChildren(
    el('span.run-name', {}, el('span.label', { dir: 'auto' }, visibleText(run.name)), verdictBadges(run)),
    el('span.n', {}, run.length === null || (!run.clock.recorded && !run.clock.derived) ? '–' : duration(run.length)), el('span.n', {}, many(sum(run.spans)), el('span.unit', {}, ' spans')),
    el('span.n' + (errors ? '.bad-text' : ''), {}, many(errors), el('span.unit', {}, ' errors')),
    el('span.n', {}, run.tokens.input === undefined && run.tokens.output === undefined ? '–' : `${short(run.tokens.input)} → ${short(run.tokens.output)}`),
    el('span.when', {}, run.start === null ? '–' : clockTime(BigInt(run.start)).slice(0, 19)), el('span.from', { dir: 'auto' }, visibleText(run.input || run.family)));
}

function showRuns() {
  $('trace').hidden = true; $('opening').hidden = true; $('runs').hidden = false; $('to-runs').hidden = true; $('to-overview').hidden = true;
  document.body.classList.remove('details');
  document.title = `${many(pageInfo.runs.length)} runs · spanport`;
  $('name').textContent = pageInfo.runs.length ? `${many(pageInfo.runs.length)} runs` : 'No runs';
  $('badges').replaceChildren();
  const all = (pick) => pageInfo.runs.reduce((a, run) => a + pick(run), 0), tile = (label, value) => el('.tile', {}, el('span.tile-label', {}, label), el('span.tile-value', {}, value));
  const stated = pageInfo.runs.some((run) => run.tokens.input !== undefined || run.tokens.output !== undefined);
  $('totals').replaceChildren(tile('Spans', many(all((run) => sum(run.spans)))), tile('Requests', many(all((run) => run.spans.model_request))), tile('Tool calls', many(all((run) => run.spans.tool_call))),
    ...(stated ? [tile('Tokens in → out', `${short(all((run) => run.tokens.input || 0))} → ${short(all((run) => run.tokens.output || 0))}`)] : []), tile('Errors', many(all((run) => sum(run.errors)))));
  $('runs-notes').replaceChildren(...(pageInfo.notices.length ? [noticeList()] : []));
  listRuns();
  $('runs-list').focus({ preventScroll: true });
}
function listRuns() {
  const wanted = $('runs-query').value.trim().toLowerCase(), column = COLUMNS.find((c) => c[0] === runsShown.sort);
  const rows = pageInfo.runs.map((_, i) => i).filter((i) => { const run = pageInfo.runs[i]; return !wanted || [run.name, run.input, run.family, run.ending, run.verdict, run.trace].some((x) => x && x.toLowerCase().includes(wanted)); });
  if (column) {
    const of = (i) => column[2](pageInfo.runs[i]), way = runsShown.down ? -1 : 1;
    rows.sort((a, b) => { const x = of(a), y = of(b); return x === null ? 1 : y === null ? -1 : x < y ? -way : x > y ? way : a - b; });
  }
  $('runs-head').replaceChildren(...COLUMNS.map(([key, label]) => el('button.quiet', {
    type: 'button', 'aria-label': `Sort by ${label.toLowerCase()}`, onclick: () => { runsShown.down = runsShown.sort === key ? !runsShown.down : key !== 'name' && key !== 'input'; runsShown.sort = key; listRuns(); },
  }, label, runsShown.sort === key ? (runsShown.down ? ' ↓' : ' ↑') : '')));
  $('runs-found').textContent = wanted ? many(rows.length) : '';
  Object.assign(runsShown, { rows, chosen: Math.min(runsShown.chosen, Math.max(0, rows.length - 1)) });
  runsList.count = rows.length;
  markRun(runsShown.chosen);
}
function markRun(position) {
  if (!runsShown.rows.length) { runsList.refresh(); return; }
  runsShown.chosen = Math.max(0, Math.min(runsShown.rows.length - 1, position));
  $('runs-list').setAttribute('aria-activedescendant', 'run' + runsShown.rows[runsShown.chosen]);
  runsList.refresh();
  runsList.reveal(runsShown.chosen);
}
const openRun = (number) => { location.hash = runAddress(number); };
$('runs-query').addEventListener('input', listRuns);
$('runs-query').addEventListener('keydown', (e) => {
  if (e.key === 'Escape') { e.target.value = ''; listRuns(); }
  if (e.key === 'Escape' || e.key === 'Enter' || e.key === 'ArrowDown') { e.preventDefault(); $('runs-list').focus(); }
});
$('runs-list').addEventListener('click', (e) => { const row = e.target.closest('.row'); if (row) openRun(row.run); });
$('runs-list').addEventListener('keydown', (e) => {
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -1e9, End: 1e9 }[e.key];
  if (by) { e.preventDefault(); markRun(runsShown.chosen + by); }
  if (e.key === 'Enter' && runsShown.rows.length) { e.preventDefault(); openRun(runsShown.rows[runsShown.chosen]); }
});

// --- begin
async function begin() {
  try { setTheme(THEMES.find((x) => x === localStorage.getItem('spanport-theme')) || 'system'); } catch { setTheme('system'); }
  if (!('DecompressionStream' in window)) {
    $('opening').textContent = 'This browser is too old for the page: it needs one of 2023 or later.';
    return;
  }
  pageInfo = JSON.parse(await unpack('page'));
  const copies = new Map();
  for (const run of pageInfo.runs) { run.again = copies.get(run.trace) || 0; copies.set(run.trace, run.again + 1); }
  addEventListener('hashchange', go);
  await go();
  document.body.dataset.ready = Math.round(performance.now());
}
begin();
