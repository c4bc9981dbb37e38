"use strict";
/*
 * What all drawings of the page share; each of them has a file of its own, and whole_page.js draws
 * them. In the page the files are one script. Data comes from the script element "data" (see
 * data.py). Whatever it says is put into the page as text: nothing makes markup of a string, or a
 * style sheet.
 */

/**
 * @typedef {{rank: (number|null)[], pid: (number|null)[], host: number[], state: number[],
 *   activity: number[], place: number[], names: Record<string, string>, hosts: string[],
 *   states: string[], activities: string[], places: string[]}} Ranks
 * @typedef {{ranks: string, count: number, names: string[], waits: string, thread: string,
 *   frames: number[]}} StackGroup
 * @typedef {{groups: StackGroup[], frames: string[], user: number[]}} Stacks
 * @typedef {{name: string, group: string, op: string, seq: number|null, state: string,
 *   start: number|null, latest: number|null, end: number|null}} Call
 * @typedef {{ranks: string, count: number, state: string, activity: string, names: string[],
 *   culprit: boolean, calls: Call[], events: number[]}} Lane
 * @typedef {{start: number|null, end: number|null, last_common: Call|null, gap: number|null,
 *   lanes: Lane[]}} Timeline
 * @typedef {{kind: string, says: string, ranks: string, count: number, names: string[],
 *   state: string|null, role: string, culprit: boolean, hosts: string[]}} WaitNode
 * @typedef {{source: number, target: number, certain: boolean}} WaitEdge
 * @typedef {{verdict: string, culprits: string, first: number, count: number, ranks: Ranks,
 *   groups: [string, string, number|null, number|null, string, string][], stacks: Stacks,
 *   evidence: Record<string, [string, string, string][]>,
 *   events: {seconds: number|null, says: string, ranks: string}[], timeline: Timeline,
 *   waits: {nodes: WaitNode[], edges: WaitEdge[]}}} Data
 */

/** @type {Data} */
const data = JSON.parse(document.getElementById("data")?.textContent ?? "{}");
const SVG = "http://www.w3.org/2000/svg";
const culprits = ranksOf(data.culprits);

/**
 * Make an element with a class and text, or other elements, in it.
 * @param {string} name @param {string} [kind] @param {...(string|Node)} inside @returns {HTMLElement}
 */
function element(name, kind = "", ...inside) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...inside);
  return made;
}

/**
 * Make an element of a drawing.
 * @param {string} name @param {Record<string, string|number>} attributes @param {string} [text]
 * @returns {SVGElement}
 */
function shape(name, attributes, text) {
  const made = /** @type {SVGElement} */ (document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Take "0-3,7" apart. @param {string} folded @returns {Set<number>} */
function ranksOf(folded) {
  const ranks = new Set();
  for (const run of folded.split(",")) {
    const [first, last] = run.split("-").map((text) => parseInt(text, 10));
    if (Number.isNaN(first)) continue;
    const end = Math.min(Number.isNaN(last) || last === undefined ? first : last, first + 300000);
    for (let rank = first; rank <= end; rank++) ranks.add(rank);
  }
  return ranks;
}

/** Name ranks in a few characters. @param {string} folded @param {number} count @param {string[]} names */
function inWords(folded, count, names) {
  const runs = folded ? folded.split(",") : [];
  const shown = runs.length > 5 ? `${runs.slice(0, 4).join(",")},…` : folded;
  const ranks = folded ? `${count > 1 ? "ranks" : "rank"} ${shown}` : "";
  const others = names.length > 2 ? [...names.slice(0, 2), "…"] : names;
  return [ranks, ...others].filter(Boolean).join(", ");
}

/** Format seconds after the first event. @param {number} seconds */
function after(seconds) {
  const sign = seconds < 0 ? "-" : "+";
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1) return `${sign}${(size * 1000).toFixed(size < 0.01 ? 1 : 0)} ms`;
  if (size < 60) return `${sign}${size.toFixed(1)} s`;
  const [hours, minutes, rest] = [size / 3600, (size / 60) % 60, size % 60].map(Math.floor);
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  return hours ? `${sign}${hours}:${two(minutes)}:${two(rest)}` : `${sign}${minutes}:${two(rest)}`;
}

/** Call a function now and whenever the width of an element changes. @param {HTMLElement} box @param {() => void} lay */
function resized(box, lay) {
  let width = -1;
  const look = () => {
    if (box.clientWidth !== width) { width = box.clientWidth; lay(); }
  };
  look();
  new ResizeObserver(look).observe(box);
}
