// The tree with its waterfall, scale and map. Only what is on screen is in the document.
'use strict';

const $ = (id) => document.getElementById(id);

// A new element: `el('button.quiet', {type: 'button', onclick}, 'text', node)`. Texts become text nodes, never markup.
function el(tag, props, ...kids) {
  const [name, ...classes] = tag.split('.');
  const node = document.createElement(name || 'div');
  node.className = classes.join(' ');
  for (const [key, value] of Object.entries(props || {})) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...kids.flat(Infinity).filter((kid) => kid !== null && kid !== undefined && kid !== ''));
  return node;
}

function sign(name, classes) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', classes || '');
  svg.setAttribute('aria-hidden', 'true');
  svg.append(document.createElementNS('http://www.w3.org/2000/svg', 'use'));
  svg.firstChild.setAttribute('href', '#s-' + name);
  return svg;
}

// A list of which only the rows on screen exist. `make()` gives an empty row, `fill(row, position)` writes it.
function virtualList(scroller, height, make, fill) {
  const sizer = scroller.querySelector('.sizer');
  const list = { count: 0, stamp: 0, pool: [], height };
  let asked = false;
  list.draw = () => {
    asked = false;
    const h = list.height(), room = Math.ceil(scroller.clientHeight / h) + 4;
    const first = Math.max(0, Math.min(Math.floor(scroller.scrollTop / h) - 2, list.count - room));
    const size = Math.min(room, list.count);
    while (list.pool.length < size) list.pool.push(sizer.appendChild(make()));
    while (list.pool.length > size) { list.pool.pop().remove(); list.stamp++; }
    for (let position = first; position < first + size; position++) {
      const row = list.pool[position % size];
      if (row.position === position && row.stamp === list.stamp) continue;
      row.position = position; row.stamp = list.stamp;
      row.style.transform = `translateY(${position * h}px)`;
      fill(row, position);
    }
  };
  list.later = () => { if (!asked) { asked = true; requestAnimationFrame(list.draw); } };
  list.refresh = () => { list.stamp++; sizer.style.height = list.count * list.height() + 'px'; list.later(); };
  list.reveal = (position) => {
    const h = list.height(), top = position * h, bottom = top + h;
    if (top < scroller.scrollTop + h) scroller.scrollTop = top - h * 2;
    else if (bottom > scroller.scrollTop + scroller.clientHeight - h) scroller.scrollTop = bottom - scroller.clientHeight + h * 2;
    list.later();
  };
  scroller.addEventListener('scroll', list.later, { passive: true });
  new ResizeObserver(list.refresh).observe(scroller);
  return list;
}

// What is shown: the trace, its visible rows, the stretch of time, the chosen row, the rows that fit a search.
const view = { t: null, rows: [], place: new Map(), from: 0, to: 1, chosen: -1, fits: null, hits: null, folded: new Set() };
let onChoose = () => {}, onFold = () => {};

const narrow = matchMedia('(max-width: 760px)');
const rowHeight = () => narrow.matches ? 46 : 26;
const treeList = virtualList($('tree'), rowHeight, makeRow, fillRow);

function makeRow() {
  const row = el('.row', { role: 'treeitem' });
  row.fold = el('span.fold', { 'aria-hidden': 'true' }, sign('fold'));
  row.icon = sign('run', 'icon');
  row.label = el('span.label');
  row.aside = el('span.aside');
  row.mark = el('span.mark', { 'aria-hidden': 'true' });
  row.tokens = el('span.tokens');
  row.time = el('span.time');
  row.bar = el('i.bar');
  row.unsure = el('i.unsure');
  row.indent = el('span.indent');
  row.lane = el('span.lane', {}, row.unsure, row.bar);
  row.append(el('span.cell', {}, row.indent, row.fold, row.icon, row.label, row.aside, row.mark, row.tokens), row.time, row.lane);
  return row;
}

function fillRow(row, position) {
  const t = view.t, r = view.rows[position], kind = KINDS[t.kind[r]], flags = t.flags[r];
  const folds = t.end[r] > r + 1, open = folds && !view.folded.has(r), depth = t.depth[r];
  row.id = 'r' + r;
  row.row = r;
  row.className = `row k-${kind.code}` + (r === view.chosen ? ' chosen' : '') + (flags & BAD ? ' bad' : '') + (flags & REUSED ? ' reused' : '') +
    (view.fits && !view.fits[r] ? ' above' : '');
  row.setAttribute('aria-level', depth + 1);
  row.setAttribute('aria-posinset', position + 1);
  row.setAttribute('aria-setsize', view.rows.length);
  row.setAttribute('aria-selected', r === view.chosen);
  if (folds) row.setAttribute('aria-expanded', open); else row.removeAttribute('aria-expanded');
  row.setAttribute('aria-label', row.title = spoken(t, r));
  row.indent.style.setProperty('--depth', Math.min(depth, 16));
  row.fold.className = 'fold' + (folds ? open ? ' open' : '' : ' leaf');
  row.icon.firstChild.setAttribute('href', '#s-' + kind.code);
  row.label.textContent = visibleText(nameOf(t, r));
  row.aside.textContent = visibleText(word(t, t.aside[r]) || '');
  row.mark.replaceChildren(...(flags & BAD ? [sign('error', 'error')] : []), ...(flags & UNFINISHED ? [sign('open', 'open')] : []));
  row.tokens.textContent = t.input.has(r) ? `${short(t.input.get(r))} → ${short(t.output.get(r))}` : open || !folds ? '' : `${many(t.end[r] - r - 1)} below`;
  row.time.textContent = isNaN(t.length[r]) ? (flags & UNFINISHED ? 'no end' : '–') : (t.clock[r] === 2 ? '' : t.clock[r] === 1 ? '~' : '') + (t.clock[r] === 2 ? '–' : duration(t.length[r]));
  row.bar.className = `bar c${t.clock[r]}` + (flags & UNFINISHED ? ' unfinished' : '');
  placeBars(row);
}

function placeBars(row) {
  const t = view.t, r = row.row, off = t.unsure.get(r);
  placeBar(row.bar, t.start[r], shownEnd(t, r));
  row.lane.className = 'lane' + (t.start[r] > view.to ? ' after' : shownEnd(t, r) < view.from ? ' before' : ''); // where it is when it is not here
  if (off) placeBar(row.unsure, t.start[r] - off, shownEnd(t, r) + off); else row.unsure.hidden = true;
}

function placeBar(bar, from, to) {
  const whole = view.to - view.from, left = (from - view.from) / whole, right = (to - view.from) / whole;
  bar.hidden = !(left <= 1 && right >= 0);
  if (bar.hidden) return;
  const a = Math.max(left, -0.01), b = Math.min(right, 1.01);
  bar.style.left = `${a * 100}%`;
  bar.style.width = `${Math.max(0, b - a) * 100}%`;
}

function spoken(t, r) {
  const flags = t.flags[r], error = t.error.get(r);
  return [
    `${KINDS[t.kind[r]].name} ${nameOf(t, r)}`,
    flags & BAD ? 'error' + (error && error[0] ? ' ' + error[0] : '') : '',
    flags & UNFINISHED ? 'unfinished' : '',
    t.clock[r] < 2 && !isNaN(t.length[r]) ? duration(t.length[r]) : '',
    `times ${CLOCKS[t.clock[r]]}`,
    t.input.has(r) ? `${many(t.input.get(r))} tokens in, ${many(t.output.get(r))} out` : '',
  ].filter(Boolean).join(', ');
}

// --- what is shown
function showRows(rows) {
  view.rows = rows;
  view.place = new Map(rows.map((r, position) => [r, position]));
  treeList.count = rows.length;
  $('none').hidden = rows.length > 0;
  activeRow();
  treeList.refresh();
  mapLater();
}

function activeRow() {
  const position = view.place.get(view.chosen);
  if (position === undefined) $('tree').removeAttribute('aria-activedescendant');
  else $('tree').setAttribute('aria-activedescendant', 'r' + view.chosen);
}

function markChosen(r) {
  view.chosen = r;
  activeRow();
  if (view.place.has(r)) treeList.reveal(view.place.get(r));
  if (r >= 0 && (view.t.start[r] > view.to || shownEnd(view.t, r) < view.from)) {
    const width = view.to - view.from, middle = (view.t.start[r] + shownEnd(view.t, r)) / 2;
    setTime(middle - width / 2, middle + width / 2);
  }
  treeList.stamp++;
  treeList.draw();
  mapLater();
}

function setTime(from, to) {
  const t = view.t, whole = t.to - t.from, least = Math.min(whole, Math.max(whole / 1e7, 1000));
  let width = Math.min(Math.max(to - from, least), whole);
  from = Math.min(Math.max(from, t.from), t.to - width);
  view.from = from; view.to = from + width;
  timeLater();
}
let timeAsked = false;
function timeLater() { if (!timeAsked) { timeAsked = true; requestAnimationFrame(drawTime); } }
function drawTime() {
  timeAsked = false;
  drawScale();
  for (const row of treeList.pool) if (row.row !== undefined && row.row < view.t.n) placeBars(row);
  drawMap();
}
function zoom(factor, at = 0.5) {
  const width = view.to - view.from, point = view.from + width * at;
  setTime(point - width * factor * at, point + width * factor * (1 - at));
}
const pan = (share) => { const by = (view.to - view.from) * share; setTime(view.from + by, view.to + by); };
function zoomTo(r) {
  const t = view.t;
  if (isNaN(t.start[r])) return;
  const from = t.start[r], to = shownEnd(t, r), edge = Math.max((to - from) * 0.05, 1000);
  setTime(from - edge, to + edge);
}

// --- the scale above the bars
const STEPS = [1, 2, 5];
function step(width, ticks) {
  const least = width / ticks;
  for (let power = 1; ; power *= 10) for (const s of STEPS) if (s * power >= least) return s * power;
}
function stepSeconds(width, ticks) {
  const nice = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  return (nice.find((s) => s * 1e9 >= width / ticks) || Math.ceil(width / ticks / 864e11) * 86400) * 1e9;
}
function drawScale() {
  const ticks = $('axis').querySelector('.ticks'), grid = $('tree').querySelector('.grid');
  $('axis').style.setProperty('--gutter', `${$('tree').offsetWidth - $('tree').clientWidth}px`);
  const width = view.to - view.from, room = Math.max(2, Math.floor(ticks.clientWidth / 90));
  const by = width / room >= 1e9 ? stepSeconds(width, room) : step(width, room);
  const marks = [], lines = [];
  for (let at = Math.ceil((view.from - view.t.from) / by) * by; at <= view.to - view.t.from; at += by) {
    const left = `${(at + view.t.from - view.from) / width * 100}%`;
    const mark = el('span.tick', {}, (at + view.t.from - view.from) / width * ticks.clientWidth < ticks.clientWidth - 48 ? offset(at, by) : ''), line = el('i.tick');
    mark.style.left = line.style.left = left;
    marks.push(mark); lines.push(line);
  }
  ticks.replaceChildren(...marks);
  grid.replaceChildren(...lines);
}
// A time after the start, with the digits that the step needs.
function offset(ns, by) {
  if (ns === 0) return '0';
  if (by >= 1e9) {
    const s = Math.round(ns / 1e9), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, two = (x) => String(x).padStart(2, '0');
    return h ? `${h}:${two(m)}:${two(s % 60)}` : m || by >= 6e10 ? `${m}:${two(s % 60)}` : `${s} s`;
  }
  const unit = ns >= 1e9 ? [1e9, 's'] : ns >= 1e6 ? [1e6, 'ms'] : [1e3, 'µs'];
  return `${(ns / unit[0]).toFixed(Math.max(0, Math.ceil(Math.log10(unit[0] / by) - 1e-9)))} ${unit[1]}`;
}

// --- the map: the whole trace on one small canvas, a lane a kind, with the time on screen as a window and the rows on screen as a mark
let mapAsked = false, drawn = null;
function mapLater() { if (!mapAsked) { mapAsked = true; requestAnimationFrame(drawMap); } }
function drawMap() {
  mapAsked = false;
  const map = $('map'), t = view.t;
  if (!t || !map.clientWidth) return;
  const state = [map.clientWidth, map.clientHeight, devicePixelRatio, getComputedStyle(map).color].join();
  if (drawn !== state || drawMap.rows !== view.rows) {
    drawn = state; drawMap.rows = view.rows;
    drawLanes(map.firstElementChild, map.clientWidth, map.clientHeight, getComputedStyle(map));
  }
  const whole = t.to - t.from, mark = (node, from, to) => {
    node.style.left = `${(from - t.from) / whole * 100}%`;
    node.style.width = `${Math.max(0, to - from) / whole * 100}%`;
  };
  const frame = map.querySelector('.window'), here = map.querySelector('.here');
  frame.hidden = view.to - view.from >= whole * 0.999;
  mark(frame, view.from, view.to);
  let from = Infinity, to = -Infinity;
  for (const row of treeList.pool) {
    if (row.row === undefined || isNaN(t.start[row.row]) || t.end[row.row] > row.row + 1) continue;
    from = Math.min(from, t.start[row.row]); to = Math.max(to, endOf(t, row.row));
  }
  here.hidden = from > to || view.rows.length <= treeList.pool.length;
  if (!here.hidden) mark(here, Math.max(from, t.from), Math.min(to, t.to));
}
function drawLanes(canvas, width, height, style) {
  const t = view.t, pen = canvas.getContext('2d'), scale = devicePixelRatio || 1, whole = t.to - t.from;
  canvas.width = width * scale; canvas.height = height * scale;
  pen.scale(scale, scale);
  const kinds = KINDS.map((_, k) => k).filter((k) => k !== RUN && view.rows.some((r) => t.kind[r] === k));
  if (!kinds.length) kinds.push(RUN);
  const colours = KINDS.map((k) => resolved(style.getPropertyValue(`--${k.code}`))), red = resolved(style.getPropertyValue('--bad'));
  const lane = (height - 8) / kinds.length, thick = Math.max(2, Math.min(10, lane - 2));
  for (const bad of [false, true]) {
    for (const r of view.rows) {
      const place = kinds.indexOf(t.kind[r]);
      if (place < 0 || isNaN(t.start[r]) || isBad(t, r) !== bad) continue;
      const w = (shownEnd(t, r) - t.start[r]) / whole * width;
      pen.fillStyle = bad ? red : colours[t.kind[r]];
      pen.globalAlpha = view.fits && !view.fits[r] ? 0.15 : bad ? 1 : 0.6;
      pen.fillRect((t.start[r] - t.from) / whole * width, 3 + place * lane, Math.max(w > 3 ? w - 0.5 : w, bad ? 2 : 1), thick);
    }
  }
}
const probe = document.body.appendChild(el('i.unseen'));
function resolved(colour) { probe.style.color = colour; return getComputedStyle(probe).color; }

// A drag over the scale or the map chooses a stretch of time; a click on the map goes there.
function brush(area, box, onClick) {
  area.addEventListener('pointerdown', (down) => {
    if (down.button) return;
    const rect = box().getBoundingClientRect(), whole = area === $('map') ? [view.t.from, view.t.to] : [view.from, view.to];
    const at = (e) => Math.min(1, Math.max(0, (e.clientX - rect.left) / rect.width));
    const start = at(down), mark = el('.brush');
    let moved = false;
    area.setPointerCapture(down.pointerId);
    const move = (e) => {
      if (!moved && Math.abs(e.clientX - down.clientX) < 4) return;
      if (!moved) { moved = true; box().append(mark); }
      mark.style.left = `${Math.min(start, at(e)) * 100}%`;
      mark.style.width = `${Math.abs(at(e) - start) * 100}%`;
    };
    const up = (e) => {
      area.removeEventListener('pointermove', move);
      area.removeEventListener('pointerup', up);
      area.removeEventListener('pointercancel', up);
      mark.remove();
      const width = whole[1] - whole[0], a = Math.min(start, at(e)), b = Math.max(start, at(e));
      if (moved && e.type === 'pointerup') setTime(whole[0] + a * width, whole[0] + b * width);
      else if (!moved && onClick) onClick(at(e));
    };
    area.addEventListener('pointermove', move);
    area.addEventListener('pointerup', up);
    area.addEventListener('pointercancel', up);
  });
}
brush($('map'), () => $('map'), (share) => {
  const t = view.t, time = t.from + share * (t.to - t.from), leaf = (r) => t.end[r] === r + 1 && endOf(t, r) >= time;
  const position = view.rows.findIndex(leaf);
  if (position >= 0) $('tree').scrollTop = position * rowHeight() - $('tree').clientHeight / 3;
});
brush($('axis'), () => $('axis').querySelector('.ticks'), null);
$('map').addEventListener('dblclick', () => setTime(view.t.from, view.t.to));
$('axis').addEventListener('dblclick', () => setTime(view.t.from, view.t.to));

// --- the pointer in the tree: click chooses or folds; wheel and drag in the lanes zoom and pan; two fingers pinch
const tree = $('tree');
const rowOf = (target) => { const row = target.closest && target.closest('.row'); return row ? row.row : -1; };
const laneAt = (x) => {
  const lane = treeList.pool[0] && treeList.pool[0].lastChild.getBoundingClientRect();
  return lane && x >= lane.left ? (x - lane.left) / lane.width : -1;
};
let dragged = false;
tree.addEventListener('click', (e) => {
  const r = rowOf(e.target);
  if (r < 0 || dragged) return;
  if (e.target.closest('.fold:not(.leaf)')) onFold(r); else onChoose(r, true);
});
tree.addEventListener('dblclick', (e) => {
  const r = rowOf(e.target);
  if (r < 0) return;
  if (e.target.closest('.lane')) zoomTo(r); else if (!e.target.closest('.fold')) onFold(r);
});
tree.addEventListener('wheel', (e) => {
  const at = laneAt(e.clientX);
  if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 150), at < 0 ? 0.5 : at); }
  else if (at >= 0 && (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))) { e.preventDefault(); pan((e.shiftKey && !e.deltaX ? e.deltaY : e.deltaX) / 800); }
}, { passive: false });
const fingers = new Map();
tree.addEventListener('pointerdown', (e) => {
  dragged = false;
  if (e.button || laneAt(e.clientX) < 0) return;
  fingers.set(e.pointerId, e.clientX);
});
tree.addEventListener('pointermove', (e) => {
  if (!fingers.has(e.pointerId)) return;
  const before = fingers.get(e.pointerId), lane = treeList.pool[0].lastChild.getBoundingClientRect();
  if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== e.pointerId)[1], was = Math.abs(before - other), now = Math.abs(e.clientX - other);
    if (was > 10 && now > 10) zoom(was / now, (Math.min(e.clientX, other) + now / 2 - lane.left) / lane.width);
    dragged = true;
  } else if (e.pointerType === 'mouse' && (dragged || Math.abs(e.clientX - before) > 3)) {
    if (!dragged) tree.setPointerCapture(e.pointerId);
    dragged = true;
    pan((before - e.clientX) / lane.width);
  } else return;
  fingers.set(e.pointerId, e.clientX);
});
for (const end of ['pointerup', 'pointercancel']) tree.addEventListener(end, (e) => fingers.delete(e.pointerId));
tree.addEventListener('scroll', mapLater, { passive: true });
new ResizeObserver(() => { if (view.t) timeLater(); }).observe(tree);
