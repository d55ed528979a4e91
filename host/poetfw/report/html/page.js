// SPDX-License-Identifier: Apache-2.0
"use strict";
// Draws the charts of a report. Python computed all positions: host/poetfw/report/html/charts.py.

const D = JSON.parse(document.getElementById("data").textContent);
const N = D.names, S = D.steps;
const $ = id => document.getElementById(id);
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

const CONTENT = ["activation", "computed again", "back from storage", "copy from another device",
  "gradient", "batch", "workspace", "parameter", "optimizer state", "statistics, loss, page buffer"];
const WORK = ["forward", "computed again", "backward", "update", "load a batch",
  "to storage", "from storage", "between devices"];
const TIMED = D.counted ? "counted" : "measured";
const [AGAIN, PAGE_OUT, PAGE_IN, COPY] = [1, 5, 6, 7];

// Figures ---------------------------------------------------------------------------------------

const whole = n => Math.round(n).toLocaleString("en-US");
const bytes = n => `${whole(n)} B`;
function scaled(value, unit) {
  if (!value) return `0 ${unit}`;
  for (const [factor, prefix] of [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]])
    if (Math.abs(value) >= factor * .9995 || factor === 1e-9) {
      const x = value / factor;
      return `${x >= 1000 ? whole(x) : Number(x.toPrecision(3))} ${prefix}${unit}`;
    }
}
const seconds = s => scaled(s, "s"), joules = j => scaled(j, "J");
function memory(n, top) {
  const [size, unit] = top >= 10 * 2 ** 20 ? [2 ** 20, "MiB"] : top >= 10 * 2 ** 10 ? [2 ** 10, "KiB"] : [1, "B"];
  return `${Number((n / size).toPrecision(4)).toLocaleString("en-US")} ${unit}`;
}
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * .999) || power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}
function binaryTicks(low, high, count) {
  let step = 1;
  while ((high - low) / step > count) step *= 2;
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
  return found;
}

// Drawing ---------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
function draw(parent, tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}
function canvas(box, width, height, label) {
  box.querySelector("svg")?.remove();
  const svg = draw(box, "svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label});
  return svg;
}
function element(tag, text, parent) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  parent?.append(made);
  return made;
}
function legend(id, entries) {
  for (const [style, text] of entries) {
    const item = element("li", undefined, $(id)), mark = element("i", undefined, item);
    mark.className = style;
    item.append(text);
  }
}
const pen = document.createElement("canvas").getContext("2d"), measured = new Map();
pen.font = '600 11.5px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
function room(text) {
  if (!measured.has(text)) measured.set(text, pen.measureText(text).width + 8);
  return measured.get(text);
}
function fitted(text, width) {
  if (width < 16 || room(text) <= width) return width < 16 ? "" : text;
  let most = Math.min(text.length - 1, Math.floor(width / 5));
  while (most >= 5 && room(`${text.slice(0, most)}…`) > width) most--;
  return most < 5 ? "" : `${text.slice(0, most)}…`;
}
function fittedEnd(text, width) {
  if (room(text) <= width) return text;
  if (!text.includes(".")) return fitted(text.replace("∂ ", ""), width);
  let from = 1;
  while (from < text.length && room(`…${text.slice(from)}`) > width) from++;
  return text.length - from < 4 ? "" : `…${text.slice(from)}`;
}
function choice(id, chosen) {
  $(id).addEventListener("click", event => {
    const button = event.target.closest("button");
    if (!button) return;
    for (const other of $(id).children) other.setAttribute("aria-pressed", other === button);
    chosen(button.value);
  });
}

// Pointing --------------------------------------------------------------------------------------

const tip = $("tip");
function point(box, lines) {
  box.addEventListener("pointermove", event => {
    const mark = event.target.closest("[data-at]");
    if (!mark) { tip.style.visibility = "hidden"; return; }
    const [title, ...rest] = lines(mark.dataset.at);
    tip.textContent = "";
    element("b", title, tip);
    for (const line of rest) element("div", line, tip);
    const {offsetWidth: w, offsetHeight: h} = tip;
    tip.style.left = `${clamp(event.clientX + 14, 6, innerWidth - w - 6)}px`;
    tip.style.top = `${event.clientY + 18 + h > innerHeight ? Math.max(6, event.clientY - h - 12) : event.clientY + 18}px`;
    tip.style.visibility = "visible";
  });
  box.addEventListener("pointerleave", () => { tip.style.visibility = "hidden"; });
}

// One training step -----------------------------------------------------------------------------

const LEFT = 84, RIGHT = 14, GAP = 16, LANE = 26;

function boxLines(panel, i) {
  const b = D.arenas[panel].boxes, stays = b.writer[i] < 0;
  const lines = [N[b.name[i]], `${CONTENT[b.content[i]]}, ${bytes(b.bytes[i])} at ${whole(b.offset[i])}`];
  if (stays) lines.push("in RAM for the whole run");
  else lines.push(
    `in RAM for ${seconds(b.end[i] - b.begin[i])}, from ${seconds(b.begin[i])}; steps ${Math.floor(b.first[i])} to ${Math.ceil(b.last[i])}`,
    `written by step ${b.writer[i]}${b.out[i] ? ", and then to storage" : ""}`);
  if (b.readers[i])
    lines.push(b.readers[i] === 1 ? `only reader: ${N[b.reader[i]]}` :
      `first reader: ${N[b.reader[i]]}, last reader: ${N[b.final[i]]} (${b.readers[i]} reads)`);
  else if (b.content[i] !== 6) lines.push("no op reads it");
  return lines;
}
function stepLines(i) {
  const lines = [`${N[S.op[i]]}`, `step ${S.step[i]}: ${WORK[S.work[i]]}, ${N[S.kind[i]]}`];
  if (N[S.shape[i]]) lines.push(`output ${N[S.shape[i]]}`);
  if (S.target[i] >= 0) lines.push(`from ${N[D.devices[S.device[i]]]} to ${N[D.devices[S.target[i]]]}`);
  lines.push(`planned: ${seconds(S.end[i] - S.begin[i])} from ${seconds(S.begin[i])}, ${joules(S.energy[i])}`);
  if (S.measured[i] !== null) lines.push(`${TIMED}: ${seconds(S.measured[i])}${S.spent[i] === null ? "" : `, ${joules(S.spent[i])} at the planned power`}`);
  return lines;
}
function pauseLines(i) {
  const p = D.pauses, works = p.works[i];
  return [works ? "work for transfers" : `${D.devices.length > 1 ? N[D.devices[p.device[i]]] : "core"} waits`,
    `${seconds(p.end[i] - p.begin[i])}, from ${seconds(p.begin[i])}`,
    ...(works ? ["interrupts, copies and checksums by the core"] : [])];
}
function stepTip(at) {
  const [kind, a, b] = at.split(":");
  return kind === "b" ? boxLines(+a, +b) : kind === "s" ? stepLines(+a) : pauseLines(+a);
}

const laneOf = new Map();
const lanes = [];
for (let i = 0; i < S.work.length; i++) {
  const paging = S.work[i] === PAGE_OUT || S.work[i] === PAGE_IN;
  const pair = [S.device[i], S.target[i]].sort((a, b) => a - b);
  const key = S.work[i] === COPY ? `c${pair}` : `${paging ? "p" : "d"}${S.device[i]}`;
  if (!laneOf.has(key)) {
    const alone = D.devices.length === 1;
    const name = S.work[i] === COPY ? (D.devices.length > 2 ? pair.map(d => N[D.devices[d]]).join(" – ") : "link") :
      paging ? "storage" : alone ? "core" : N[D.devices[S.device[i]]];
    laneOf.set(key, {key, name, device: paging || S.work[i] === COPY ? -1 : S.device[i], items: []});
    lanes.push(laneOf.get(key));
  }
  laneOf.get(key).items.push(i);
}
lanes.sort((a, b) => "dpc".indexOf(a.key[0]) - "dpc".indexOf(b.key[0]) || (a.key < b.key ? -1 : 1));

const step = {mode: "time", low: 0, high: D.total_s, chosen: null};
const isOver = panel => panel.limit > panel.end * 1.35 || panel.limit === panel.end;
const span = () => step.mode === "time" ? [0, D.total_s] : [.5, D.statements + .5];
const boxSpan = (b, i) => step.mode === "time" ? [b.begin[i], b.end[i]] : [b.first[i] - .5, b.last[i] + .5];
const barSpan = i => step.mode === "time" ? [S.begin[i], S.end[i]] : [S.step[i] - .5, S.step[i] + .5];

function drawStep() {
  const box = $("step"), width = Math.max(330, box.clientWidth), inner = width - LEFT - RIGHT;
  const heights = D.arenas.map(p => p.boxes.name.length ? clamp(Math.round(430 / D.arenas.length), 120, 340) : 40);
  const shared = D.arenas.length > 1;
  const above = panel => (shared ? 16 : 0) + (isOver(panel) ? 0 : 14);
  const height = 8 + D.arenas.reduce((a, p, i) => a + above(p) + heights[i] + GAP, 0) + lanes.length * (LANE + 6) + 26;
  const svg = canvas(box, width, height, "Buffers in RAM and lanes of steps over one training step");
  const scale = inner / (step.high - step.low);
  const x = value => LEFT + (value - step.low) * scale;
  draw(draw(draw(svg, "defs"), "clipPath", {id: "plot"}), "rect", {x: LEFT, y: 0, width: inner, height});
  let y = 8;
  const grid = draw(svg, "g");
  step.layout = [];
  D.arenas.forEach((panel, number) => {
    const tall = heights[number], over = isOver(panel);
    const top = Math.max(panel.end, over ? 0 : panel.limit, panel.begin + 1);
    if (shared) draw(svg, "text", {x: LEFT, y: y + 12, class: "strong", style: "font-weight:600"},
      `${panel.name}: ${bytes(panel.end - panel.begin)}${panel.limit === panel.end ? "" : ` of ${bytes(panel.limit - panel.begin)}`}`);
    y += above(panel);
    const base = y + tall, up = address => base - (address - panel.begin) / (top - panel.begin) * tall;
    draw(svg, "rect", {class: "lane", x: LEFT, y: up(top), width: inner, height: tall, opacity: .35});
    for (const tick of binaryTicks(0, top - panel.begin, tall / 34)) {
      draw(grid, "line", {class: "grid", x1: LEFT, x2: width - RIGHT, y1: up(panel.begin + tick), y2: up(panel.begin + tick)});
      draw(svg, "text", {x: LEFT - 8, y: up(panel.begin + tick) + 4, "text-anchor": "end"}, memory(tick, top - panel.begin));
    }
    const area = draw(svg, "g", {"clip-path": "url(#plot)"}), b = panel.boxes;
    for (let i = 0; i < b.name.length; i++) {
      const [from, to] = boxSpan(b, i);
      if (to < step.low || from > step.high) continue;
      const left = Math.max(x(from), LEFT - 2), right = Math.min(x(to), width - RIGHT + 2), at = `b:${number}:${i}`;
      const high = up(b.offset[i] + b.bytes[i]), w = Math.max(right - left, .75), h = Math.max(up(b.offset[i]) - high, .75);
      draw(area, "rect", {class: `mark c${b.content[i]}${at === step.chosen ? " chosen" : ""}`, x: left, y: high, width: w, height: h, rx: Math.min(2, w / 3, h / 3), "data-at": at});
      const text = h >= 14 ? fitted(N[b.name[i]], w) : "";
      if (text) draw(area, "text", {class: "on", x: (left + right) / 2, y: high + h / 2 + 4, "text-anchor": "middle"}, text);
    }
    if (!over) {
      draw(svg, "line", {class: "limit", x1: LEFT, x2: width - RIGHT, y1: up(panel.limit), y2: up(panel.limit)});
      draw(svg, "text", {class: "bad", x: width - RIGHT - 2, y: up(panel.limit) - 4, "text-anchor": "end"}, `limit ${bytes(panel.limit - panel.begin)}`);
    }
    y = base + GAP;
  });
  for (const lane of lanes) {
    draw(svg, "text", {x: LEFT - 8, y: y + LANE / 2 + 4, "text-anchor": "end"}, fitted(lane.name, LEFT - 2));
    draw(svg, "rect", {class: "lane", x: LEFT, y, width: inner, height: LANE});
    const area = draw(svg, "g", {"clip-path": "url(#plot)"});
    if (step.mode === "time" && lane.device >= 0)
      D.pauses.device.forEach((device, i) => {
        const from = D.pauses.begin[i], to = D.pauses.end[i], works = D.pauses.works[i];
        if (device !== lane.device || to < step.low || from > step.high) return;
        const left = Math.max(x(from), LEFT), right = Math.min(x(to), width - RIGHT), at = `w:${i}`;
        if (right - left < .75) return;
        draw(area, "rect", {class: `${works ? "mark transfer" : "wait"}${at === step.chosen ? " chosen" : ""}`, x: left, y: y + .5, width: right - left, height: LANE - 1, "data-at": at});
        const text = works ? "" : fitted(`waits ${seconds(to - from)}`, right - left);
        if (text && !text.endsWith("…")) draw(area, "text", {x: (left + right) / 2, y: y + LANE / 2 + 4, "text-anchor": "middle", "pointer-events": "none"}, text);
      });
    let drawn = -9, work = -1;
    for (const i of lane.items) {
      const [from, to] = barSpan(i);
      if (to < step.low || from > step.high) continue;
      const left = Math.max(x(from), LEFT - 2), right = Math.min(x(to), width - RIGHT + 2), at = `s:${i}`;
      if (right - drawn < .5 && S.work[i] === work && at !== step.chosen) continue;
      [drawn, work] = [right, S.work[i]];
      const w = Math.max(right - left, .6);
      draw(area, "rect", {class: `mark w${S.work[i]}${at === step.chosen ? " chosen" : ""}`, x: left, y: y + .5, width: w, height: LANE - 1, rx: Math.min(2, w / 3), "data-at": at, ...(w < 4 ? {"stroke-width": 0, style: "stroke-width:0"} : {})});
      const text = fitted(N[S.op[i]], w);
      if (text) draw(area, "text", {class: "on", x: (left + right) / 2, y: y + LANE / 2 + 4, "text-anchor": "middle"}, text);
    }
    y += LANE + 6;
  }
  for (const tick of ticks(step.low, step.high, inner / 90)) {
    if (step.mode === "steps" && tick % 1) continue;
    draw(grid, "line", {class: "grid", x1: x(tick), x2: x(tick), y1: 8, y2: y});
    draw(svg, "text", {x: clamp(x(tick), LEFT + 10, width - RIGHT - 22), y: y + 14, "text-anchor": "middle"}, step.mode === "time" ? seconds(tick) : `step ${tick}`);
  }
}
function view(low, high) {
  const [first, last] = span(), least = (last - first) / 5000;
  const width = clamp(high - low, least, last - first);
  step.low = clamp(low, first, last - width);
  step.high = step.low + width;
  drawStep();
}
function zoom(factor, center = (step.low + step.high) / 2) {
  view(center - (center - step.low) * factor, center + (step.high - center) * factor);
}
const showAll = () => view(...span());
function choose(at) {
  step.chosen = at;
  const [title, ...rest] = stepTip(at);
  $("detail").textContent = "";
  element("b", title, $("detail"));
  $("detail").append(` – ${rest.join("; ")}`);
  const [kind, a, i] = at.split(":");
  const [from, to] = kind === "b" ? boxSpan(D.arenas[a].boxes, +i) : kind === "s" ? barSpan(+a) : [D.pauses.begin[a], D.pauses.end[a]];
  const width = step.high - step.low;
  if (to < step.low || from > step.high) view((from + to - width) / 2, (from + to + width) / 2);
  else drawStep();
}
const tracks = [
  ...D.arenas.map((p, number) => p.boxes.name.map((_, i) => i)
    .sort((i, j) => p.boxes.begin[i] - p.boxes.begin[j] || p.boxes.offset[i] - p.boxes.offset[j])
    .map(i => `b:${number}:${i}`)),
  ...lanes.map(lane => lane.items.map(i => `s:${i}`)),
].filter(track => track.length);
function middle(at) {
  const [kind, a, i] = at.split(":");
  const [from, to] = kind === "b" ? boxSpan(D.arenas[a].boxes, +i) : barSpan(+a);
  return (from + to) / 2;
}
function walk(along, across) {
  let row = tracks.findIndex(track => track.includes(step.chosen));
  if (row < 0) return choose(tracks[0][0]);
  if (along) {
    const track = tracks[row];
    return choose(track[clamp(track.indexOf(step.chosen) + along, 0, track.length - 1)]);
  }
  const here = middle(step.chosen);
  row = clamp(row + across, 0, tracks.length - 1);
  choose(tracks[row].reduce((best, at) => Math.abs(middle(at) - here) < Math.abs(middle(best) - here) ? at : best));
}
function setUpStep() {
  const used = new Set(D.arenas.flatMap(p => p.boxes.content));
  legend("step-legend", CONTENT.map((text, c) => [`c${c}`, text]).filter((_, c) => used.has(c))
    .concat(S.work.includes(3) ? [["w3", "update"]] : [])
    .concat(D.pauses.works.some(w => w) ? [["transfer", "work for transfers"]] : []));
  const box = $("step");
  point(box, stepTip);
  let pressed = 0, clicked = -1e9;  // a click draws anew, after which browsers tell of no double click
  const inside = event => (event.clientX - box.getBoundingClientRect().left) * (Math.max(330, box.clientWidth) / box.clientWidth);
  const value = px => step.low + (clamp(px, LEFT, Math.max(330, box.clientWidth) - RIGHT) - LEFT) / (Math.max(330, box.clientWidth) - LEFT - RIGHT) * (step.high - step.low);
  box.addEventListener("pointerdown", event => {
    if (event.button || event.pointerType === "touch") return;
    pressed = inside(event);
    const svg = box.querySelector("svg"), height = svg.viewBox.baseVal.height;
    const brush = draw(svg, "rect", {class: "brush", y: 0, height, width: 0});
    const move = moved => {
      const px = clamp(inside(moved), LEFT, box.clientWidth - RIGHT);
      brush.setAttribute("x", Math.min(pressed, px));
      brush.setAttribute("width", Math.abs(px - pressed));
    };
    const up = released => {
      removeEventListener("pointermove", move);
      const px = inside(released), mark = event.target.closest("[data-at]");
      brush.remove();
      const twice = released.timeStamp - clicked < 500;
      clicked = -1e9;
      if (Math.abs(px - pressed) > 5) view(...[value(pressed), value(px)].sort((a, b) => a - b));
      else if (twice) showAll();
      else {
        clicked = released.timeStamp;
        if (mark) choose(mark.dataset.at);
      }
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up, {once: true});
  });
  box.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : .8, value(inside(event)));
  }, {passive: false});
  box.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const width = step.high - step.low, keys = {
      ArrowLeft: () => event.shiftKey ? view(step.low - width / 5, step.high - width / 5) : walk(-1, 0),
      ArrowRight: () => event.shiftKey ? view(step.low + width / 5, step.high + width / 5) : walk(1, 0),
      ArrowUp: () => walk(0, -1), ArrowDown: () => walk(0, 1),
      "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1 / .6), "0": showAll, Escape: showAll,
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  $("zoom-in").onclick = () => zoom(.6);
  $("zoom-out").onclick = () => zoom(1 / .6);
  $("zoom-all").onclick = showAll;
  choice("axis", mode => { step.mode = mode; showAll(); });
}

// The network -----------------------------------------------------------------------------------

function drawNetwork() {
  const W = D.network, count = D.layers.length, box = $("network");
  const available = Math.max(330, box.clientWidth), pitch = Math.max(30, Math.min(104, (available - 24) / count));
  const upright = pitch < 62, wide = pitch - (upright ? 8 : 9), tall = upright ? 104 : 40;
  const width = Math.max(available, 24 + pitch * count);
  const skips = W.forward.filter(([a, b]) => b - a > 1);
  const rise = skips.length ? clamp(14 + 7 * Math.log2(Math.max(...skips.map(([a, b]) => b - a))), 18, 52) : 0;
  const top = 22 + rise, low = top + tall + 96, last = low + tall + 20, height = last + (upright ? 30 : 26);
  const svg = canvas(box, width, height, "Layers of the forward and the backward pass");
  if (width > available) svg.style.width = `${width}px`;
  const x = column => 12 + pitch * (column + .5);
  draw(svg, "text", {x: 12, y: 13}, "forward →");
  draw(svg, "text", {x: 12, y: low - 8}, "← backward");
  const hasBackward = column => W.backward[column] > 0;
  for (const [a, b] of W.forward) {
    const from = x(a) + wide / 2, to = x(b) - wide / 2;
    if (b - a === 1) draw(svg, "path", {class: "edge", d: `M${from} ${top + tall / 2}H${to}`});
    else {
      const peak = top - clamp(14 + 7 * Math.log2(Math.abs(b - a)), 18, 52);
      draw(svg, "path", {class: "edge", d: `M${x(a)} ${top}C${x(a)} ${peak},${x(b)} ${peak},${x(b)} ${top}`});
    }
  }
  let before = -1;
  for (let c = 0; c < count; c++) if (hasBackward(c)) {
    if (before >= 0) draw(svg, "path", {class: "edge", d: `M${x(before) + wide / 2} ${low + tall / 2}H${x(c) - wide / 2}`, opacity: .5});
    before = c;
  }
  W.carried.forEach(([name, a, b, how], i) => {
    const y1 = top + tall, y2 = low, bend = (y2 - y1) * .5;
    draw(svg, "path", {class: `carried c${how}`, d: `M${x(a)} ${y1}C${x(a)} ${y1 + bend},${x(b)} ${y2 - bend},${x(b)} ${y2}`, "data-at": `e:${i}`, ...(how ? {"stroke-dasharray": how === AGAIN ? "5 3" : "none"} : {})});
  });
  const node = (c, y, style, name, under, at) => {
    draw(svg, "rect", {class: `mark ${style}`, x: x(c) - wide / 2, y, width: wide, height: tall, rx: 5, "data-at": at});
    if (upright) draw(svg, "text", {class: "on", transform: `translate(${x(c) + 4} ${y + tall - 6}) rotate(-90)`}, fittedEnd(name, tall));
    else {
      draw(svg, "text", {class: "on", x: x(c), y: y + (under ? 17 : 25), "text-anchor": "middle"}, fittedEnd(name, wide));
      if (under) draw(svg, "text", {class: "on", x: x(c), y: y + 32, "text-anchor": "middle", style: "font-weight:400"}, fitted(under, wide));
    }
  };
  for (let c = 0; c < count; c++) {
    const name = N[D.layers[c]], shape = N[W.shape[c]];
    node(c, top, W.again[c] ? "c1" : W.paged[c] ? "c2" : "c0", name, shape, `f:${c}`);
    if (hasBackward(c)) node(c, low, "c4", `∂ ${name}`, W.backward[c] > 1 ? `${W.backward[c]} ops` : "", `g:${c}`);
    if (W.trained[c]) {
      draw(svg, "path", {class: "edge", d: `M${x(c)} ${low + tall}V${last}`});
      draw(svg, "rect", {class: "mark c7", x: x(c) - wide / 2, y: last, width: wide, height: 20, rx: 10, "data-at": `u:${c}`});
      const text = fitted(`${whole(W.trained[c])}`, wide);
      if (text && !text.endsWith("…")) draw(svg, "text", {class: "on", x: x(c), y: last + 14, "text-anchor": "middle"}, text);
    }
    if (W.again[c] && !upright) {
      draw(svg, "text", {class: "strong", x: x(c) + wide / 2, y: top - 4, "text-anchor": "end"}, `+${W.again[c]}`);
    }
  }
}
function networkTip(at) {
  const [kind, number] = at.split(":"), c = +number, W = D.network;
  if (kind === "e") {
    const [name, a, b, how] = W.carried[c];
    const ways = ["kept in RAM", "computed again", "back from storage", "copied from another device"];
    return [N[name], `read by the backward pass of ${N[D.layers[b]]}`, ways[how]];
  }
  const lines = [N[D.layers[c]]];
  if (kind === "f") {
    if (N[W.shape[c]]) lines.push(`output of a sample: ${N[W.shape[c]]}`);
    if (W.again[c]) lines.push(`${W.again[c]} ${W.again[c] === 1 ? "op is" : "ops are"} computed again`);
    if (W.paged[c]) lines.push(`${W.paged[c]} ${W.paged[c] === 1 ? "transfer" : "transfers"} to storage`);
  }
  if (kind === "g") lines.push(`${W.backward[c]} ops of the backward pass`);
  if (kind === "u") lines.push(`${whole(W.trained[c])} weights are updated`);
  return lines;
}
function setUpNetwork() {
  const ways = new Set(D.network.carried.map(row => row[3]));
  legend("network-legend", [["c0", "kept in RAM"], ["c1", "computed again"], ["c2", "to storage and back"], ["c3", "copied from another device"]]
    .filter((_, way) => !way || ways.has(way) || (way === 1 && D.network.again.some(n => n)))
    .concat([["c4", "gradients"], ["c7", "weights updated"]]));
  point($("network"), networkTip);
}

// Layers ----------------------------------------------------------------------------------------

const MOST_LAYERS = 24;
let quantity = "time";
const perLayer = D.layers.map(name => ({name: N[name], time: Array(8).fill(0), energy: Array(8).fill(0), measured: Array(8).fill(0), spent: Array(8).fill(0)}));
for (let i = 0; i < S.work.length; i++) {
  const layer = perLayer[S.layer[i]];
  layer.time[S.work[i]] += S.end[i] - S.begin[i];
  layer.energy[S.work[i]] += S.energy[i];
  if (S.measured[i] !== null) layer.measured[S.work[i]] += S.measured[i];
  if (S.spent[i] !== null) layer.spent[S.work[i]] += S.spent[i];
}
const sum = list => list.reduce((a, b) => a + b, 0);
function shownLayers() {
  const order = [...perLayer].sort((a, b) => sum(b[quantity]) - sum(a[quantity]));
  if (order.length <= MOST_LAYERS) return perLayer;
  const large = new Set(order.slice(0, MOST_LAYERS)), rest = order.slice(MOST_LAYERS);
  const add = key => rest[0][key].map((_, w) => sum(rest.map(layer => layer[key][w])));
  return [...perLayer.filter(layer => large.has(layer)),
    {name: `${rest.length} others`, time: add("time"), energy: add("energy"), measured: add("measured"), spent: add("spent")}];
}
function drawLayers() {
  const box = $("layers"), width = Math.max(330, box.clientWidth), rows = shownLayers();
  const left = clamp(Math.max(...rows.map(row => room(row.name))) + 2, 60, 170), pitch = 23;
  const height = rows.length * pitch + 26, thin = D.measured, other = quantity === "time" ? "measured" : "spent";
  const unit = quantity === "time" ? seconds : joules;
  const svg = canvas(box, width, height, `${quantity} of a step by layer`);
  const most = Math.max(...rows.map(row => Math.max(sum(row[quantity]), thin ? sum(row[other]) : 0))) || 1;
  const scale = (width - left - (thin ? 132 : 84)) / most;
  for (const tick of ticks(0, most, (width - left) / 110)) {
    draw(svg, "line", {class: "grid", x1: left + tick * scale, x2: left + tick * scale, y1: 0, y2: height - 20});
    draw(svg, "text", {x: left + tick * scale, y: height - 6, "text-anchor": "middle"}, unit(tick));
  }
  rows.forEach((row, number) => {
    const y = number * pitch;
    draw(svg, "text", {x: left - 8, y: y + 14, "text-anchor": "end", class: "strong"}, fittedEnd(row.name, left - 2));
    const bar = (values, y, height) => {
      let from = left;
      values.forEach((value, work) => {
        if (!value) return;
        draw(svg, "rect", {class: `mark w${work}`, x: from, y, width: Math.max(value * scale, .6), height, "data-at": `${number}:${work}`});
        from += value * scale;
      });
      return from;
    };
    const end = bar(row[quantity], y + 3, thin ? 10 : 15);
    const below = thin ? bar(row[other], y + 14, 4) : 0;
    draw(svg, "text", {x: Math.max(end, below) + 6, y: y + 14}, unit(sum(row[quantity])) + (thin ? ` / ${unit(sum(row[other]))}` : ""));
  });
}
function setUpLayers() {
  const used = new Set(S.work);
  $("quantity").hidden = !D.energy_j;
  legend("layers-legend", WORK.map((text, w) => [`w${w}`, text]).filter((_, w) => used.has(w)));
  choice("quantity", chosen => { quantity = chosen; drawLayers(); });
  point($("layers"), at => {
    const [number, work] = at.split(":").map(Number), row = shownLayers()[number];
    const lines = [row.name, `${WORK[work]}: ${seconds(row.time[work])}, ${joules(row.energy[work])} planned`];
    if (D.measured && row.measured[work]) lines.push(`${TIMED}: ${seconds(row.measured[work])}${row.spent[work] ? `, ${joules(row.spent[work])} at the planned power` : ""}`);
    lines.push(`layer: ${seconds(sum(row.time))}, ${joules(sum(row.energy))} planned${D.measured ? `; ${seconds(sum(row.measured))}, ${joules(sum(row.spent))} ${TIMED}` : ""}`);
    return lines;
  });
}

// RAM and loss ----------------------------------------------------------------------------------

function drawCurve() {
  const box = $("curve");
  if (!box) return;
  const width = Math.max(330, box.clientWidth), height = 224, left = 70, right = 22, top = 14, bottom = 34;
  const points = D.curve, svg = canvas(box, width, height, "Energy of a training step by RAM");
  const xs = points.map(p => p[0]), ys = points.map(p => p[1]);
  const [x0, x1] = [xs[0], xs.at(-1)], margin = (x1 - x0) * .04 || x0 * .05;
  const x = b => left + (b - x0 + margin) / (x1 - x0 + 2 * margin) * (width - left - right);
  const log = Math.max(...ys) > 3 * Math.min(...ys), scale = log ? Math.log : v => v;
  const [low, high] = log ? [Math.min(...ys) / 1.25, Math.max(...ys) * 1.25] : [0, Math.max(...ys) * 1.12];
  const y = j => height - bottom - (scale(j) - (log ? scale(low) : 0)) / (scale(high) - (log ? scale(low) : 0)) * (height - top - bottom);
  const marks = log ? [1, 2, 5].flatMap(m => [...Array(14).keys()].map(k => m * 10 ** (k - 10))).filter(v => v >= low && v <= high) : ticks(0, high, 4);
  for (const tick of marks) {
    draw(svg, "line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)});
    draw(svg, "text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end"}, joules(tick));
  }
  for (const tick of binaryTicks(x0 - margin, x1 + margin, (width - left) / 92))
    draw(svg, "text", {x: x(tick), y: height - 12, "text-anchor": "middle"}, memory(tick, x1));
  draw(svg, "path", {class: "line", d: points.map((p, i) => `${i ? "H" : "M"}${x(p[0])}${i ? "V" : " "}${y(p[1])}`).join("")});
  points.forEach((p, i) => {
    const way = p[4] || p[5] ? 2 : p[3] ? 1 : 0;
    draw(svg, "circle", {class: `mark c${way}`, cx: x(p[0]), cy: y(p[1]), r: 5.5, "data-at": i});
  });
  draw(svg, "text", {class: "strong", x: x(x0) + 9, y: Math.max(y(ys[0]) - 9, 11)}, "this build");
}
function drawLoss() {
  const box = $("loss"), L = D.loss;
  if (!box) return;
  const width = Math.max(330, box.clientWidth), height = 224, left = 56, right = 64, top = 14, bottom = 30;
  const svg = canvas(box, width, height, "Loss by training step");
  const last = L.first + (L.values.length - 1) * L.stride, most = Math.max(...L.values), least = Math.min(0, ...L.values);
  const x = s => left + (s - L.first) / Math.max(1, last - L.first) * (width - left - right);
  const y = v => height - bottom - (v - least) / (most - least || 1) * (height - top - bottom);
  for (const tick of ticks(least, most, 4)) {
    draw(svg, "line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)});
    draw(svg, "text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end"}, Number(tick.toPrecision(3)));
  }
  for (const tick of ticks(L.first, last, (width - left) / 100))
    if (tick % 1 === 0) draw(svg, "text", {x: x(tick), y: height - 9, "text-anchor": "middle"}, `step ${tick}`);
  const path = values => values.map((v, i) => `${i ? "L" : "M"}${x(L.first + i * L.stride).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  draw(svg, "path", {class: "line thin", d: path(L.values)});
  const window = Math.max(1, Math.round(10 / L.stride));
  draw(svg, "path", {class: "line", d: path(L.values.map((_, i) => {
    const part = L.values.slice(Math.max(0, i - window + 1), i + 1);
    return sum(part) / part.length;
  }))});
  if (!L.evaluations.length) return;
  const accuracy = L.metric === "accuracy", values = L.evaluations.map(e => e[1]);
  const z = v => accuracy ? height - bottom - v * (height - top - bottom) : y(Math.min(v, most));
  draw(svg, "path", {class: "line good", d: L.evaluations.map(([s, v], i) => `${i ? "L" : "M"}${x(s)} ${z(v)}`).join("")});
  L.evaluations.forEach(([s, v]) => draw(svg, "circle", {cx: x(s), cy: z(v), r: 4, style: "fill:var(--good)"}));
  const shown = values.at(-1);
  draw(svg, "text", {class: "good", x: x(L.evaluations.at(-1)[0]) + 8, y: z(shown) + 4}, accuracy ? `${(100 * shown).toFixed(2)}%` : Number(shown.toPrecision(4)));
}
function setUpCurve() {
  if ($("curve")) point($("curve"), at => {
    const [budget, energy, time, recomputes, ins, outs] = D.curve[at];
    return [bytes(budget), `${joules(energy)}, ${seconds(time)}`, `${recomputes} recomputes, ${outs} page-outs, ${ins} page-ins`];
  });
}

// Tables ----------------------------------------------------------------------------------------

function fill(id, head, rows) {
  $(id).addEventListener("toggle", () => {
    const holder = $(id).querySelector(".table");
    if (holder.firstChild) return;
    const table = element("table", undefined, holder), first = element("tr", undefined, element("thead", undefined, table));
    const all = rows(), body = element("tbody", undefined, table);
    head.forEach((text, c) => {
      const cell = element("th", text, first);
      cell.scope = "col";
      if (typeof all[0]?.[c] === "number") cell.className = "number";
    });
    for (const row of all) {
      const line = element("tr", undefined, body);
      for (const value of row) {
        const cell = element("td", typeof value === "number" ? value.toLocaleString("en-US", {maximumFractionDigits: 6}) : value, line);
        if (typeof value === "number") cell.className = "number";
      }
    }
  });
}
fill("buffers", ["buffer", "holds", "bytes", "address", "first step", "last step", "begin ms", "end ms", "first reader", "last reader"],
  () => D.arenas.flatMap(({boxes: b}) => b.name.map((name, i) => [N[name], CONTENT[b.content[i]], b.bytes[i], b.offset[i],
    Math.floor(b.first[i]), Math.ceil(b.last[i]), 1e3 * b.begin[i], 1e3 * b.end[i], b.reader[i] < 0 ? "" : N[b.reader[i]], b.final[i] < 0 ? "" : N[b.final[i]]])));
fill("steps", ["step", "op", "operator", "work", "device", "begin ms", "end ms", "planned ms", `${TIMED} ms`, "planned mJ", `${TIMED} mJ`],
  () => S.work.map((work, i) => [S.step[i], N[S.op[i]], N[S.kind[i]], WORK[work], N[D.devices[S.device[i]]], 1e3 * S.begin[i], 1e3 * S.end[i],
    1e3 * (S.end[i] - S.begin[i]), S.measured[i] === null ? "" : 1e3 * S.measured[i], 1e3 * S.energy[i], S.spent[i] === null ? "" : 1e3 * S.spent[i]]));

// Theme -----------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}
function nameTheme() { $("theme").textContent = isDark() ? "Light mode" : "Dark mode"; }
$("theme").onclick = () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); };
dark.addEventListener("change", nameTheme);

function drawAll() { drawStep(); drawNetwork(); drawLayers(); drawCurve(); drawLoss(); }
$("detail").textContent = "Point at a box or a bar, or choose one: its name, bytes, life and readers stand here.";
setUpStep(); setUpNetwork(); setUpLayers(); setUpCurve(); nameTheme(); drawAll();
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });

// What the page shows, for whoever reads it by a script.
window.poetfw = {
  totals: {
    seconds: Math.max(...S.end), joules: sum(S.energy), bytes: Math.max(...D.arenas.map(p => Math.max(...p.boxes.offset.map((o, i) => o + p.boxes.bytes[i])))),
    spent: sum(S.spent), layerJoules: sum(perLayer.map(layer => sum(layer.energy))), again: S.work.filter(w => w === AGAIN).length,
  },
  view: () => [step.low, step.high],
  chosen: () => step.chosen,
};
