"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const hidden = new Set();
// Black is the page's ink, which is light on a dark page.
const colourOf = policy => DATA.styles[policy].colour === "#000000" ? "var(--ink)" : DATA.styles[policy].colour;

// The format of scoring/numbers.py.
function num(x, digits = 3) {
  if (x === null || x === undefined || x === "") return "–";
  if (typeof x !== "number") return String(x);
  const even = 2 * Math.round(x / 2);  // halves go to the even number, as on the printed board
  const whole = Math.abs(x - even) === .5 ? even : Math.round(x), a = Math.abs(x), full = Math.abs(Number(x.toPrecision(digits))) >= 10 ** (digits - 1);
  if (Math.abs(whole) < 1e5 && (x === whole || full)) return whole.toLocaleString("en-US");
  if (a >= 1e-3 && a < 1000) return x.toPrecision(digits);
  return x.toExponential(digits - 1).replace("e+", "e");
}
function el(tag, attrs = {}, text) {
  const svg = ["svg","g","line","circle","rect","text","path","title","tspan"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
function hover(node, text) {
  node.appendChild(el("title", {}, text));
  node.addEventListener("pointermove", event => {
    const tip = $("tip"); tip.textContent = text; tip.style.opacity = 1;
    tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - 270)) + "px"; tip.style.top = (event.clientY + 14) + "px"; });
  node.addEventListener("pointerleave", () => { $("tip").style.opacity = 0; });
}

// --- tables ----------------------------------------------------------------------------------------------------------
/** A table that sorts by any column and keeps its order when it is filled again; missing values come last either way.
    A column has `key` and `title`, and may have `show(row)` for its text, `cell(td, row)` for more, `text` and `wide`. */
function table(target, columns, rows, select) {
  const line = el("tr"), by = target.by ??= {}, missing = x => x === null || x === undefined || x === "";
  target.tHead.replaceChildren(line);
  target.hidden = !rows.length;
  function fill() {
    columns.forEach((column, i) => column.key === by.key
      ? line.cells[i].setAttribute("aria-sort", by.down ? "descending" : "ascending") : line.cells[i].removeAttribute("aria-sort"));
    const list = by.key === undefined ? rows : [...rows].sort((a, b) => {
      const x = a[by.key], y = b[by.key];
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const d = typeof x === "number" ? x - y : String(x).localeCompare(String(y));
      return by.down ? -d : d; });
    target.tBodies[0].replaceChildren(...list.map(row => {
      const tr = el("tr");
      columns.forEach(column => {
        const td = el("td", {"data-title": column.title}, column.show ? column.show(row) : num(row[column.key]));
        td.className = [column.key === "verdict" ? row.verdict : "", column.wide ? "wide" : "", column.text ? "text" : ""].join(" ");
        tr.append(td);
        if (column.cell) column.cell(td, row); });
      return tr; })); }
  function sort(key, down) { by.key = key; by.down = down; fill(); }
  columns.forEach(column => {
    const th = el("th", {scope: "col", class: column.text ? "text" : ""});
    th.append(el("button", {type: "button"}, column.title));
    th.addEventListener("click", () => sort(column.key, by.key === column.key && !by.down));  // the whole cell; the button is for keyboards
    line.append(th); });
  if (select) {
    select.replaceChildren(el("option", {value: ""}, "as played"), ...columns.map(c => el("option", {value: c.key}, c.title)));
    select.value = by.key ?? "";
    select.onchange = () => sort(select.value || undefined, false); }
  fill();
}

// --- plots -----------------------------------------------------------------------------------------------------------
function scale(values, low, high, log) {
  values = values.filter(v => typeof v === "number" && isFinite(v) && (!log || v > 0));
  let a = Math.min(...values), b = Math.max(...values);
  if (!values.length) { a = 1; b = 10; }
  if (log) { a = Math.log10(a); b = Math.log10(b); }
  if (b - a < 1e-9) { const pad = log ? 0.5 : Math.abs(a) * 0.1 || 1; a -= pad; b += pad; }
  const pad = (b - a) * 0.06; a -= pad; b += pad;
  const map = v => low + ((log ? Math.log10(v) : v) - a) / (b - a) * (high - low);
  const ticks = [];
  if (log && b - a >= Math.log10(3)) {
    const step = Math.max(1, Math.ceil((b - a) / 5)), within = b - a < 1 ? [1, 1.5, 2, 3, 5, 7] : b - a < 3 ? [1, 2, 5] : [1];
    for (let e = Math.floor(a); e <= b; e += step) for (const m of within) {
      const v = m * 10 ** e;
      if (Math.log10(v) >= a && Math.log10(v) <= b) ticks.push(v); }
  } else ticks.push(...log ? evenTicks(10 ** a, 10 ** b) : evenTicks(a, b));
  return {map, ticks, floor: log ? 10 ** a : a};
}
/** Numbers from `low` to `high` in steps of 1, 2, 2.5 or 5 times a power of ten: at most six of them. */
function evenTicks(low, high) {
  const least = (high - low) / 5, power = 10 ** Math.floor(Math.log10(least));
  const step = power * ([1, 2, 2.5, 5].find(m => m * power >= least) || 10), first = Math.ceil(low / step);
  return Array.from({length: Math.floor(high / step) - first + 1}, (_, i) => (first + i) * step);
}
const H = 300;
const short = x => num(x, 2);
/** In the format of num, with all digits of the number and no zeros at the end. */
const tick = x => x && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e5) ? x.toExponential(5).replace(/\.?0*e\+?/, "e")
  : x.toLocaleString("en-US", {maximumSignificantDigits: 6});
/** A drawing as wide as its card, so that text keeps its size on a phone. */
function canvas(box, label, height = H) {
  const width = Math.max(260, box.clientWidth - (box.classList.contains("card") ? 34 : 0));
  const svg = el("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  svg.style.maxWidth = width + "px";
  box.append(svg);
  return [svg, width];
}
function clear(id) { $(id).querySelectorAll("svg,.legend,.empty,h3").forEach(node => node.remove()); }
function titled(id) { clear(id); return canvas($(id), $(id).querySelector("h2").textContent, arguments[1]); }
/** Ticks whose labels keep clear of each other and end before `end`; `size`: the room of a label along the axis. */
function thinned(s, size, end = Infinity) {
  let last = -Infinity;
  return [...new Set(s.ticks)].sort((a, b) => s.map(a) - s.map(b)).filter(t => {
    const half = size(tick(t)) / 2, at = s.map(t);
    if (at - half < last + 6 || at + half > end) return false;
    last = at + half; return true; });
}
function xAxis(svg, width, s, y, title, left = 0) {
  svg.append(el("line", {class: "axis", x1: left, x2: width, y1: y, y2: y}));
  thinned(s, text => 7 * text.length, width).forEach(t => { const x = s.map(t);
    svg.append(el("line", {class: "rule", x1: x, x2: x, y1: 20, y2: y}));
    svg.append(el("text", {x, y: y + 16, "text-anchor": "middle", class: "faint xtick"}, tick(t))); });
  svg.append(el("text", {x: width / 2, y: y + 34, "text-anchor": "middle"}, title));
}
function yAxis(svg, width, s, x, title) {
  thinned(s, () => 13).forEach(t => { const y = s.map(t);
    svg.append(el("line", {class: "rule", x1: x, x2: width, y1: y, y2: y}));
    svg.append(el("text", {x: x - 6, y: y + 4, "text-anchor": "end", class: "faint ytick"}, tick(t))); });
  svg.append(el("text", {x: 0, y: 12}, title));
}
function trace(svg, policy) {
  const g = el("g", {class: "trace" + (hidden.has(policy) ? " off" : ""), "data-policy": policy});
  svg.append(g); return g;
}
// Matplotlib's markers; a mark has the radius r.
const star = (points, inner) => r => "M" + Array.from({length: 2 * points}, (_, i) => {
  const angle = Math.PI * i / points, d = 1.2 * r * (i % 2 ? inner : 1);
  return `${d * Math.sin(angle)},${-d * Math.cos(angle)}`; }).join("L") + "Z";
const SHAPES = {
  "*": star(5, .45), p: star(5, Math.cos(Math.PI / 5)), h: star(6, Math.cos(Math.PI / 6)),
  "<": r => `M${-r*1.1},0L${r*.8},${-r*1.05}V${r*1.05}Z`,
  ">": r => `M${r*1.1},0L${-r*.8},${-r*1.05}V${r*1.05}Z`,
  o: r => `M${-r},0a${r},${r} 0 1,0 ${2*r},0a${r},${r} 0 1,0 ${-2*r},0Z`,
  s: r => `M${-r*.9},${-r*.9}h${r*1.8}v${r*1.8}h${-r*1.8}Z`,
  "^": r => `M0,${-r*1.1}L${r*1.05},${r*.8}H${-r*1.05}Z`,
  v: r => `M0,${r*1.1}L${r*1.05},${-r*.8}H${-r*1.05}Z`,
  D: r => `M0,${-r}L${r},0L0,${r}L${-r},0Z`,
  P: r => `M${-r*.4},${-r*1.1}h${r*.8}v${r*.7}h${r*.7}v${r*.8}h${-r*.7}v${r*.7}h${-r*.8}v${-r*.7}h${-r*.7}v${-r*.8}h${r*.7}Z`,
  X: r => `M${-r},${-r*.5}L${-r*.5},${-r}L0,${-r*.5}L${r*.5},${-r}L${r},${-r*.5}L${r*.5},0L${r},${r*.5}L${r*.5},${r}L0,${r*.5}L${-r*.5},${r}L${-r},${r*.5}L${-r*.5},0Z`};
/** The mark of a row of the summary: hollow if trials are unfinished, crossed out if the verdict is FAIL. */
function mark(g, row, x, y, r = 5.5) {
  const colour = colourOf(row.policy);
  const shape = el("path", {class: "mark", d: SHAPES[DATA.styles[row.policy].marker](r), transform: `translate(${x},${y})`,
    fill: row.unfinished ? "var(--card)" : colour, "data-hollow": row.unfinished ? 1 : 0});
  if (row.unfinished) { shape.style.stroke = colour; shape.style.strokeWidth = 2; }
  g.append(shape);
  if (row.verdict === "FAIL") { const k = r + 3.5; g.append(el("path", {class: "cross", d: `M${x-k},${y-k}l${2*k},${2*k}M${x+k},${y-k}l${-2*k},${2*k}`})); }
  return shape;
}
const suffix = row => (row.verdict === "FAIL" ? ", FAIL" : "") + (row.unsolved ? ", not solved" : "") + (row.unfinished ? `, ${num(row.unfinished)} of ${num(row.trials)} unfinished` : "")
  + (row.pulls_mean === 0 ? ", zero pulls" : "");
function dashes(policy) { const d = DATA.styles[policy].dashes; return Array.isArray(d) ? d[1].map(x => 2 * x).join(" ") : "none"; }
/** A picture of the policy's mark. */
function icon(row) {
  const svg = el("svg", {viewBox: "-9 -9 18 18", "aria-hidden": "true", class: "key"});
  mark(svg, row, 0, 0);
  return svg;
}
/** `rows`: one per policy, with what the legend says of it. A click hides the policy. */
function legend(box, rows) {
  const list = el("div", {class: "legend"});
  rows.forEach(row => {
    const button = el("button", {type: "button", "aria-pressed": !hidden.has(row.policy)});
    button.append(icon(row), DATA.styles[row.policy].label + suffix(row));
    button.addEventListener("click", () => { hidden.has(row.policy) ? hidden.delete(row.policy) : hidden.add(row.policy); draw(); });
    list.append(button); });
  box.append(list);
}
function empty(id, text) { $(id).append(el("p", {class: "soft empty"}, text)); }
/** A policy's name above its bar, with FAIL and unfinished trials; bold if the row is `mine`. */
function name(svg, row, y, width) {
  const label = DATA.styles[row.policy].label, room = Math.max(8, Math.floor(width / 7) - suffix(row).length);
  const text = el("text", {x: 0, y, class: row.mine ? "mine" : ""}, label.length > room ? label.slice(0, room - 1) + "…" : label);
  if (suffix(row)) text.append(el("tspan", {class: "bad"}, suffix(row)));
  svg.append(text);
}
