/** Draw a lane for ranks that did the same, with their calls, and the events of the story. */
function lanes() {
  const home = document.getElementById("lanes");
  const { lanes: rows, end, last_common: common, gap } = data.timeline;
  if (!home || rows.length === 0) return;
  const words = [];
  if (common) words.push(`Last call that all completed: ${common.name}${common.start === null ? "" : ` (${after(common.start)})`}.`);
  if (common && gap !== null && gap >= 1) words.push(`From then to the last sign of any rank: ${after(gap).slice(1)}.`);
  const timed = rows.some((lane) => lane.calls.some((call) => call.start !== null) || lane.events.some((n) => data.events[n].seconds !== null));
  words.push(timed ? "Long pauses are drawn shorter than they were." : "In the order of calls; their times are not known.");
  const box = element("div", "lanes");
  const note = element("p", "hint");
  note.setAttribute("role", "status");
  home.append(element("p", "", words.join(" ")), box, note);
  resized(home, () => drawLanes(box, note, timed));
}

/**
 * @param {HTMLElement} box @param {HTMLElement} note @param {boolean} timed
 */
function drawLanes(box, note, timed) {
  const { lanes: rows, end, last_common: common } = data.timeline;
  const label = Math.min(190, box.clientWidth * 0.3);
  const width = Math.max(box.clientWidth - 6, 420);
  const height = 34, top = 26;
  const place = timed ? scaleOfTimes(label + 14, width - Math.min(190, width / 4)) : null;
  const svg = shape("svg", { width, height: top + rows.length * height + 8, role: "img", "aria-label": "Calls and events of the ranks in time" });
  if (place) {
    for (const tick of place.ticks) {
      svg.append(shape("line", { x1: tick.x, x2: tick.x, y1: top - 6, y2: top + rows.length * height, class: "guide" }));
      svg.append(shape("text", { x: tick.x, y: 12, class: "soft", "text-anchor": "middle" }, after(tick.seconds)));
    }
    if (common && common.start !== null) {
      const x = place.at(common.latest ?? common.start);
      const stop = width - 4;
      if (stop > x) svg.append(shape("rect", { x, y: top, width: stop - x, height: rows.length * height, class: "gap", opacity: 0.35 }));
      svg.append(shape("line", { x1: x, x2: x, y1: top - 6, y2: top + rows.length * height, class: "common" }));
    }
  }
  rows.forEach((lane, number) => {
    const y = top + number * height;
    const middle = y + height / 2;
    const name = shape("text", { x: 0, y: middle - 2, class: lane.culprit ? "strong" : "" }, clipped(inWords(lane.ranks, lane.count, lane.names), label));
    const doing = shape("text", { x: 0, y: middle + 11, class: "soft", "font-size": 10 }, clipped(lane.activity, label));
    name.append(shape("title", {}, lane.ranks));
    doing.append(shape("title", {}, lane.activity));
    svg.append(name, doing, shape("line", { x1: label + 8, x2: width, y1: y + height, y2: y + height, class: "guide" }));
    drawCalls(svg, lane, middle, place, label + 12, width);
    /** @type {number[]} */
    const taken = [];
    for (const index of lane.events) {
      const event = data.events[index];
      if (!place || event.seconds === null) continue;
      let x = place.at(event.seconds);
      while (taken.some((other) => Math.abs(other - x) < 13)) x += 13;
      taken.push(x);
      const mark = shape("circle", { cx: x, cy: middle, r: 7, class: "event", tabindex: 0, role: "button", "aria-label": event.says });
      const say = () => { note.textContent = `${index + 1}. ${after(event.seconds ?? 0)} ${inWords(event.ranks, 2, [])}: ${event.says}`; };
      mark.append(shape("title", {}, `${after(event.seconds)} ${event.says}`));
      mark.addEventListener("click", say);
      mark.addEventListener("focus", say);
      svg.append(mark, shape("text", { x, y: middle + 3, class: "number" }, String(index + 1)));
    }
  });
  box.replaceChildren(svg);
}

/**
 * Draw the calls of a lane: a stroke for each that was completed, a bar for the one that is not,
 * a light stroke for those queued behind it.
 * @param {SVGElement} svg @param {Lane} lane @param {number} middle
 * @param {ReturnType<typeof scaleOfTimes>|null} place @param {number} begin @param {number} width
 */
function drawCalls(svg, lane, middle, place, begin, width) {
  const step = Math.min(40, (width - begin - 190) / Math.max(1, lane.calls.length));
  let pending = false;
  lane.calls.forEach((call, order) => {
    if (place && call.start === null) return;
    const x = place ? place.at(call.start ?? 0) : begin + order * step;
    if (call.state !== "pending" || pending) {
      const tick = shape("rect", { x: x - 1.5, y: middle - 6, width: 3, height: 12, class: pending ? "queued" : "done" });
      tick.append(shape("title", {}, `${titleOf(call)}${pending ? ", queued" : ""}`));
      svg.append(tick);
      return;
    }
    pending = true;
    const stop = place && call.end !== null ? place.at(call.end) : width - 4;
    const bar = shape("rect", { x, y: middle - 8, width: Math.max(5, stop - x), height: 16, rx: 3, class: `open fill-${lane.state}` });
    bar.append(shape("title", {}, titleOf(call)));
    svg.append(bar);
    if (call.end !== null) svg.append(shape("path", { d: `M${stop - 5} ${middle - 5}l10 10m0 -10l-10 10`, class: "given-up" }));
    // Where the bar is still open its name stands behind all strokes and events, else at its start.
    const left = place && call.end === null ? Math.max(x + 12, width - 180) : x + 12;
    if (stop - left > 50) svg.append(shape("text", { x: left, y: middle + 4, class: "inside" }, clipped(call.name, Math.min(stop - left - 6, 260))));
  });
}

/** @param {Call} call */
function titleOf(call) {
  const times = [call.start === null ? "" : `entered ${after(call.start)}`, call.latest === null ? "" : `the last ${after(call.latest)}`, call.end === null ? "" : `given up ${after(call.end)}`];
  return [`${call.name}, ${call.state}`, ...times].filter(Boolean).join(", ");
}

/** Cut a text to about so many pixels. @param {string} text @param {number} room */
function clipped(text, room) {
  const most = Math.max(4, Math.floor(room / 6.2));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/**
 * Map seconds to pixels so that milliseconds and hours both show: the room between two moments
 * grows with the logarithm of the time between them.
 * @param {number} left @param {number} right
 */
function scaleOfTimes(left, right) {
  const { lanes: rows, end } = data.timeline;
  const times = new Set();
  for (const lane of rows) {
    for (const call of lane.calls) for (const time of [call.start, call.latest, call.end]) if (time !== null) times.add(time);
    for (const index of lane.events) if (data.events[index].seconds !== null) times.add(data.events[index].seconds);
  }
  if (end !== null) times.add(end);
  const sorted = [...times].sort((one, other) => one - other);
  const steps = sorted.map((time, i) => (i ? Math.log1p((time - sorted[i - 1]) * 1000) : 0));
  /** @type {number[]} */
  const sums = [];
  steps.reduce((sum, step, i) => (sums[i] = sum + step), 0);
  const whole = sums[sums.length - 1] || 1;
  const position = new Map(sorted.map((time, i) => [time, left + (sums[i] / whole) * (right - left)]));
  const at = (/** @type {number} */ time) => position.get(time) ?? left;
  /** @type {{x: number, seconds: number}[]} */
  const ticks = [];
  for (const seconds of sorted) {
    const x = at(seconds);
    if (ticks.length === 0 || x - ticks[ticks.length - 1].x > 78) ticks.push({ x, seconds });
  }
  return { at, ticks };
}
