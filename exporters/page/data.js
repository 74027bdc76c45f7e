// Blocks of data, and JSON read only as far as somebody looks. Knows nothing of the screen.
'use strict';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%.()*+-;,=>?@^_/{|}~';
const DIGIT = new Uint8Array(128);
for (let i = 0; i < 85; i++) DIGIT[ALPHABET.charCodeAt(i)] = i;

// Base 85: five characters are four bytes; a shorter last group is filled with the highest digit.
function bytesOf(text) {
  const groups = Math.ceil(text.length / 5), bytes = new Uint8Array(groups * 4);
  for (let g = 0, at = 0; g < groups; g++) {
    let n = 0;
    for (let i = 0; i < 5; i++, at++) n = n * 85 + (at < text.length ? DIGIT[text.charCodeAt(at)] : 84);
    bytes[g * 4] = n / 0x1000000; bytes[g * 4 + 1] = n >>> 16; bytes[g * 4 + 2] = n >>> 8; bytes[g * 4 + 3] = n;
  }
  return bytes.subarray(0, bytes.length - (groups * 5 - text.length));
}

// The text of the block with this id.
async function unpack(id) {
  const packed = document.getElementById(id).textContent.slice(1, -1);
  const stream = new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Response(stream).text();
}

// --- JSON as text. A value is read one level at a time, so that depth costs nothing, numbers keep their digits and keys
// their order. The text is minified JSON that was checked before it got here.
const MARK = /["[\]{}]/g, STOP = /[,\]}]/g;

function stringEnd(text, at) {
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
    let back = at - 1;
    while (text[back] === '\\') back--;
    if ((at - back) % 2) return at + 1;
  }
}

function valueEnd(text, at) {
  const first = text[at];
  if (first === '"') return stringEnd(text, at);
  if (first !== '{' && first !== '[') {
    STOP.lastIndex = at;
    const hit = STOP.exec(text);
    return hit ? hit.index : text.length;
  }
  let depth = 0, hit;
  MARK.lastIndex = at;
  while ((hit = MARK.exec(text))) {
    if (hit[0] === '"') MARK.lastIndex = stringEnd(text, hit.index);
    else if (hit[0] === '{' || hit[0] === '[') depth++;
    else if (--depth === 0) return hit.index + 1;
  }
  return text.length;
}

// Members of an object as [key, text], of an array as [index, text]; none for anything else.
function members(text) {
  const found = [], object = text[0] === '{';
  if (!object && text[0] !== '[') return found;
  for (let at = 1; at < text.length - 1; at++) {
    let key = found.length;
    if (object) {
      const end = stringEnd(text, at);
      key = JSON.parse(text.slice(at, end));
      at = end + 1;
    }
    const end = valueEnd(text, at);
    found.push([key, text.slice(at, end)]);
    at = end;
  }
  return found;
}

const items = (text) => text ? members(text).map((m) => m[1]) : [];
const fields = (text) => new Map(text ? members(text) : []);
const plain = (text) => text === undefined || text === '' ? null : JSON.parse(text);
const isText = (text) => text !== undefined && text[0] === '"';

// JSON with line breaks and two blanks a level, by walking over it once.
function pretty(text) {
  let depth = 0, out = '', last = 0;
  const line = () => '\n' + '  '.repeat(Math.min(depth, 40));
  for (let at = 0; at < text.length; at++) {
    const c = text[at];
    if (c === '"') { at = stringEnd(text, at) - 1; continue; }
    if (c === ',') { out += text.slice(last, at + 1) + line(); last = at + 1; }
    else if (c === ':') { out += text.slice(last, at) + ': '; last = at + 1; }
    else if (c === '{' || c === '[') {
      if (text[at + 1] === '}' || text[at + 1] === ']') { at++; continue; }
      depth++;
      out += text.slice(last, at + 1) + line(); last = at + 1;
    } else if (c === '}' || c === ']') {
      depth--;
      out += text.slice(last, at) + line() + c; last = at + 1;
    }
  }
  return out + text.slice(last);
}
