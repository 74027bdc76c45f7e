// A trace in columns, as the page holds it: rows in the order of the tree. Knows nothing of the screen.
'use strict';

const KINDS = [
  { code: 'run', name: 'run', many: 'runs' },
  { code: 'task', name: 'task', many: 'tasks' },
  { code: 'attempt', name: 'attempt', many: 'attempts' },
  { code: 'phase', name: 'phase', many: 'phases' },
  { code: 'model', name: 'model request', many: 'model requests' },
  { code: 'tool', name: 'tool call', many: 'tool calls' },
];
const RUN = 0, TASK = 1, ATTEMPT = 2, PHASE = 3, MODEL = 4, TOOL = 5;
const CLOCKS = ['recorded', 'derived', 'synthetic'];
const UNFINISHED = 1, REUSED = 2, INFERRED = 4, BAD = 8;

function traceOf(index, number) {
  const n = index.depth.length, digits = (text) => Uint8Array.from(text, Number);
  const t = {
    number, n, words: index.words, labels: index.labels, base: BigInt(index.base), chunks: index.chunks,
    ids: index.id, depth: index.depth, kind: digits(index.kind), clock: digits(index.clock), status: digits(index.status),
    flags: index.flags, name: index.name, aside: index.aside,
    start: new Float64Array(n), length: new Float64Array(n), end: new Int32Array(n), parent: new Int32Array(n), attempt: new Int32Array(n),
    model: new Int32Array(n).fill(-1), input: new Map(), output: new Map(), error: new Map(), unsure: new Map(index.unsure),
    by: new Map(index.by), asked: new Map(), links: new Map(), linked: new Map(), row: new Map(), lines: new Map(),
  };
  // Times in ns after the base, NaN when not known; the parent, and the row after the last one below.
  const open = [];
  let last = 0, request = 0;
  for (let r = 0; r < n; r++) {
    t.start[r] = index.start[r] === null ? NaN : (last += Number(index.start[r]));
    t.length[r] = index.length[r] === null ? NaN : Number(index.length[r]);
    while (open.length > t.depth[r]) t.end[open.pop()] = r;
    t.parent[r] = open.length ? open[open.length - 1] : -1;
    t.attempt[r] = t.kind[r] === ATTEMPT ? r : t.parent[r] < 0 ? -1 : t.attempt[t.parent[r]];
    open.push(r);
    if (t.kind[r] === MODEL) t.model[r] = index.models[request++];
    const id = idOf(t, r);
    if (!t.row.has(id)) t.row.set(id, r);
  }
  while (open.length) t.end[open.pop()] = n;
  for (const [r, input, output] of index.tokens) { t.input.set(r, input); t.output.set(r, output); }
  for (const [r, type, message] of index.errors) t.error.set(r, [word(t, type), word(t, message)]);
  for (const [r, request] of index.by) push(t.asked, request, r);
  for (const [r, target, type] of index.links) { push(t.links, r, [target, word(t, type)]); push(t.linked, target, [r, word(t, type)]); }
  [t.from, t.to] = span(t);
  return t;
}

const push = (map, key, value) => map.has(key) ? map.get(key).push(value) : map.set(key, [value]);
const word = (t, number) => number < 0 ? null : t.words[number];
const nameOf = (t, r) => t.words[t.name[r]];
const idOf = (t, r) => typeof t.ids === 'string' ? t.ids.slice(r * 16, r * 16 + 16) : t.ids[r]; // a list when one is odd
const endOf = (t, r) => t.start[r] + (isNaN(t.length[r]) ? 0 : t.length[r]);
const isBad = (t, r) => (t.flags[r] & BAD) !== 0;

// The time that the waterfall shows: of the spans whose times are not made up, if there are any.
function span(t) {
  let from = Infinity, to = -Infinity;
  for (const made of [false, true]) {
    for (let r = 0; r < t.n; r++) {
      if (isNaN(t.start[r]) || (t.clock[r] === 2) !== made) continue;
      from = Math.min(from, t.start[r]); to = Math.max(to, endOf(t, r));
    }
    if (to > from) return [from, to];
  }
  return from <= to ? [from, from + 1] : [0, 1];
}

// An unfinished span goes on as far as anything below it, and to the end of the trace when nothing says more.
function shownEnd(t, r) {
  return isNaN(t.length[r]) ? Math.max(t.to, t.start[r]) : endOf(t, r);
}

// The line of content of a row. Chunks are kept for a while, since people look at neighbours.
const recent = new Map(), KEEP = 12;
function chunk(t, number) {
  const id = `c${t.number}-${number}`;
  let lines = recent.get(id);
  if (lines) recent.delete(id);
  else lines = unpack(id).then((text) => text.split('\n'));
  recent.set(id, lines);
  if (recent.size > KEEP) recent.delete(recent.keys().next().value);
  return lines;
}
function chunkOf(t, r) {
  let low = 0, high = t.chunks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (t.chunks[middle] <= r) low = middle; else high = middle - 1;
  }
  return low;
}
async function contentOf(t, r) {
  const number = chunkOf(t, r);
  return (await chunk(t, number))[r - t.chunks[number]];
}

// The messages before a request's own, as text, by its history: what its base began with, was asked and answered. The newest `most` of
// them; `missing` when a base is not in this trace.
async function earlier(t, r, most) {
  const parts = [];
  let total = 0, have = 0, missing = false, h = plain(fields(await contentOf(t, r)).get('h'));
  if (h) total = h[1];
  let wanted = total;
  const seen = new Set([r]);
  while (h && wanted > 0 && have < most) {
    if (h[0] === null || seen.has(h[0])) { missing = true; break; }
    seen.add(h[0]);
    const base = fields(await contentOf(t, h[0]));
    const next = plain(base.get('h'));
    const own = [...items(base.get('m')), ...items(base.get('M'))].slice(0, Math.max(0, wanted - (next ? next[1] : 0)));
    const before = wanted - own.length;
    parts.unshift(...own);
    have += own.length;
    if (!next && before > 0) { missing = true; break; }
    wanted = Math.min(before, next ? next[1] : 0);
    h = next;
  }
  return { total, missing, messages: parts.slice(Math.max(0, parts.length - most)) };
}

// Rows whose names, errors or content hold the words, told to `found` chunk by chunk; stops when `alive` says no.
const unescaped = (text) => text.includes('\\u') ? text.replace(/\\u([0-9a-f]{4})/gi, (all, hex) => {
  const code = parseInt(hex, 16);
  return code < 32 || code === 34 || code === 92 ? all : String.fromCharCode(code);
}) : text;

async function search(t, query, found, alive) {
  const wanted = query.toLowerCase(), inJson = JSON.stringify(query).slice(1, -1).toLowerCase();
  const words = new Set();
  t.words.forEach((w, i) => { if (w !== null && w.toLowerCase().includes(wanted)) words.add(i); });
  const hits = new Uint8Array(t.n);
  for (let r = 0; r < t.n; r++) if (words.has(t.name[r]) || words.has(t.aside[r]) || words.has(t.model[r]) || idOf(t, r) === wanted) hits[r] = 1;
  for (const [r, texts] of t.error) if (texts.some((x) => x && x.toLowerCase().includes(wanted))) hits[r] = 1;
  found(hits, 0);
  for (let c = 0; c < t.chunks.length; c++) {
    const kept = recent.get(`c${t.number}-${c}`);
    const lines = kept ? await kept : (await unpack(`c${t.number}-${c}`)).split('\n');
    if (!alive()) return;
    lines.forEach((line, i) => { if (unescaped(line).toLowerCase().includes(inJson)) hits[t.chunks[c] + i] = 1; });
    found(hits, (c + 1) / t.chunks.length);
    if (c % 4 === 3) await new Promise((go) => setTimeout(go));
  }
}

// Rows to show: all that no fold hides, or with filters those that fit and what is above them. `fits` is null without filters.
function visible(t, fits, folded) {
  const rows = [];
  let keep = null;
  if (fits) {
    keep = new Uint8Array(t.n);
    for (let r = 0; r < t.n; r++) for (let up = fits[r] ? r : -1; up >= 0 && !keep[up]; up = t.parent[up]) keep[up] = 1;
  }
  for (let r = 0; r < t.n;) {
    if (!keep || keep[r]) rows.push(r);
    r = folded.has(r) ? t.end[r] : r + 1;
  }
  return rows;
}

// How long, in ns, only requests, only tools, both at once, and neither ran; of times that are not made up.
function timeByKind(t) {
  const edges = [];
  for (let r = 0; r < t.n; r++) {
    if ((t.kind[r] === MODEL || t.kind[r] === TOOL) && t.clock[r] !== 2 && t.length[r] > 0 && !(t.flags[r] & REUSED)) {
      edges.push([t.start[r], t.kind[r], 1], [endOf(t, r), t.kind[r], -1]);
    }
  }
  edges.sort((a, b) => a[0] - b[0]);
  const sum = { model: 0, tool: 0, both: 0, rest: 0, whole: t.to - t.from, known: edges.length > 0 };
  let models = 0, tools = 0, last = 0;
  for (const [time, kind, step] of edges) {
    const passed = time - last;
    if (models && tools) sum.both += passed; else if (models) sum.model += passed; else if (tools) sum.tool += passed;
    if (kind === MODEL) models += step; else tools += step;
    last = time;
  }
  sum.rest = sum.whole - sum.model - sum.tool - sum.both;
  for (const part of ['model', 'tool', 'both', 'rest']) if (sum[part] < sum.whole / 2000) sum[part] = 0; // sums of floats
  return sum;
}

function slowest(t, most) {
  const rows = [];
  for (let r = 0; r < t.n; r++) if ((t.kind[r] === MODEL || t.kind[r] === TOOL) && t.length[r] > 0 && t.clock[r] !== 2) rows.push(r);
  return rows.sort((a, b) => t.length[b] - t.length[a]).slice(0, most);
}

// --- texts for people
function duration(ns) {
  if (isNaN(ns)) return '';
  if (ns === 0) return '0 s';
  if (ns < 0) return '−' + duration(-ns);
  if (ns < 1e6) return `${Math.round(ns / 1e3)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms`;
  if (ns < 12e10) return `${(ns / 1e9).toFixed(ns < 1e10 ? 2 : 1)} s`;
  const s = Math.floor(ns / 1e9), m = Math.floor(s / 60);
  return m < 120 ? `${m} m ${String(s % 60).padStart(2, '0')} s` : `${Math.floor(m / 60)} h ${String(m % 60).padStart(2, '0')} m`;
}
const many = (n) => n === null || n === undefined ? '?' : n.toLocaleString('en-US');
function short(n) {
  if (n === null || n === undefined) return '?';
  return n < 1e4 ? many(n) : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e5 ? 1 : 0)}k` : `${(n / 1e6).toFixed(2)}M`;
}
function bytes(n) {
  return n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} kB` : `${(n / 1048576).toFixed(1)} MB`;
}
// A time in ns since the epoch (a BigInt), in UTC, to the microsecond.
function clockTime(ns) {
  const ms = Number(ns / 1000000n), date = new Date(ms);
  if (isNaN(date)) return String(ns);
  const micro = String(((ns % 1000000000n) + 1000000000n) % 1000000000n / 1000n).padStart(6, '0');
  return `${date.toISOString().slice(0, 19).replace('T', ' ')}.${micro} UTC`;
}
// Control characters as their signs and those that turn the direction of writing as their codes, so that a name stays in its line.
const visibleText = (text) => text.replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, (c) => {
  const code = c.charCodeAt(0);
  return code < 32 ? String.fromCharCode(0x2400 + code) : code === 127 ? '\u2421' : `\\u${code.toString(16)}`;
});
