"use strict";
/*
 * The drawings of the page: the map of ranks, the wait graph, the stacks, the lanes in time.
 * Data comes from the script element "data" (see data.py). Whatever it says is put into the page
 * as text: nothing here makes markup of a string, or a style sheet.
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
 *   state: string|null, role: string, culprit: boolean}} WaitNode
 * @typedef {{source: number, target: number, certain: boolean}} WaitEdge
 * @typedef {{verdict: string, culprits: string, first: number, ranks: Ranks,
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

/* ------------------------------------------------------------------ the map of ranks */

/** Draw a cell for each rank, and show what is known of the one that is chosen. */
function rankMap() {
  const home = document.getElementById("rank-map");
  const ranks = data.ranks;
  const count = ranks.rank.length;
  if (!home || count === 0) return;
  /** @type {Set<number>} */
  const hidden = new Set();
  let host = "";
  /** @type {Set<number>|null} */
  let members = null;
  let wanted = "";
  let chosen = data.first;
  const facets = facetsOf(ranks);
  let facet = facets[0].names.length === 1 && facets[1].names.length > 1 ? facets[1] : facets[0];

  const controls = element("div", "controls");
  const legend = element("span", "controls");

  /** Offer a button for each kind of rank, which hides those of the kind. */
  function listKinds() {
    hidden.clear();
    legend.replaceChildren(...facet.names.map((name, kind) => {
      const button = element("button", "state", element("span", `swatch ${facet.classes[kind]}`), `${name} ${facet.counts[kind]}`);
      if (facet === facets[0]) button.dataset.state = name;
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const off = hidden.delete(kind) ? false : Boolean(hidden.add(kind));
        button.setAttribute("aria-pressed", String(!off));
        draw();
      });
      return button;
    }));
  }
  listKinds();
  controls.append(legend);
  if (facets[1].names.length > 1) {
    const select = /** @type {HTMLSelectElement} */ (element("select"));
    select.append(...facets.map((one, number) => new Option(one.title, String(number), false, one === facet)));
    select.addEventListener("change", () => { facet = facets[Number(select.value)]; listKinds(); draw(); });
    controls.append(element("label", "", "colour", select));
  }
  if (ranks.hosts.length > 1) {
    const list = element("datalist");
    list.id = "hosts";
    list.append(...ranks.hosts.filter(Boolean).slice(0, 2000).map((name) => new Option(name, name)));
    const input = /** @type {HTMLInputElement} */ (element("input"));
    input.setAttribute("list", "hosts");
    input.size = 14;
    input.addEventListener("input", () => { host = input.value.trim().toLowerCase(); draw(); });
    controls.append(element("label", "", "host", input), list);
  }
  const choices = groupChoices();
  if (choices.length) {
    const select = /** @type {HTMLSelectElement} */ (element("select"));
    select.append(new Option("all ranks", ""));
    choices.forEach(([name], number) => select.append(new Option(name, String(number))));
    select.addEventListener("change", () => {
      members = select.value === "" ? null : ranksOf(choices[Number(select.value)][1]);
      draw();
    });
    controls.append(element("label", "", "group", select));
  }
  const search = /** @type {HTMLInputElement} */ (element("input"));
  search.size = 16;
  search.placeholder = "0-7,12 or a word";
  search.addEventListener("input", () => { wanted = search.value.trim().toLowerCase(); draw(); });
  controls.append(element("label", "", "find", search));
  const shown = element("span", "hint");
  shown.setAttribute("role", "status");
  controls.append(shown);

  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas"));
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Map of ${count} ranks. Arrow keys choose one; what is known of it stands beside.`);
  const box = element("div", "canvas", canvas);
  const card = element("div", "card");
  card.setAttribute("aria-live", "polite");
  const table = home.nextElementSibling;
  home.append(controls, element("div", "map", element("div", "", box, ...(table ? [table] : [])), card));

  const culprit = ranks.rank.map((rank) => rank !== null && culprits.has(rank));
  /** @type {{size: number, gap: number, x: Float32Array, y: Float32Array, height: number,
   *   labels: [string, number, number][], across: number}} */
  let plan = { size: 0, gap: 0, x: new Float32Array(0), y: new Float32Array(0), height: 0, labels: [], across: 1 };

  /** Say whether a rank passes the filters. @param {number} index */
  function passes(index) {
    if (hidden.has(facet.kinds[index])) return false;
    if (host && !ranks.hosts[ranks.host[index]].toLowerCase().includes(host)) return false;
    const rank = ranks.rank[index];
    if (members && (rank === null || !members.has(rank))) return false;
    return true;
  }

  /** Lay the cells out: hosts as blocks where that fits, in order of rank. */
  function lay() {
    const width = Math.max(200, box.clientWidth - 20);
    const size = count <= 96 ? 34 : count <= 600 ? 20 : count <= 5000 ? 11 : 7;
    const gap = size > 10 ? 2 : 1;
    const step = size + gap;
    const x = new Float32Array(count), y = new Float32Array(count);
    /** @type {[string, number, number][]} */
    const labels = [];
    const runs = hostRuns(ranks.host);
    const blocks = runs.length > 1 && runs.length <= count / 2;
    const labelled = blocks && size >= 20;
    const across = Math.max(1, Math.floor((width - 4) / step));
    let height = 0;
    if (!blocks) {
      for (let i = 0; i < count; i++) { x[i] = (i % across) * step; y[i] = Math.floor(i / across) * step; }
      height = Math.ceil(count / across) * step;
    } else {
      let left = 0, top = labelled ? 16 : 0, tallest = 0;
      for (const [start, end] of runs) {
        const columns = Math.min(8, end - start, across);
        const rows = Math.ceil((end - start) / columns);
        const wide = Math.max(columns * step, labelled ? 84 : 0) + gap * 3;
        if (left > 0 && left + wide > width) { left = 0; top += tallest + (labelled ? 22 : gap * 3); tallest = 0; }
        if (labelled) labels.push([ranks.hosts[ranks.host[start]], left, top - 4]);
        for (let i = start; i < end; i++) {
          x[i] = left + ((i - start) % columns) * step;
          y[i] = top + Math.floor((i - start) / columns) * step;
        }
        tallest = Math.max(tallest, rows * step);
        left += wide;
      }
      height = top + tallest;
    }
    for (let i = 0; i < count; i++) { x[i] += 2; y[i] += 2; }  // room for the frame of the chosen one
    height += 4;
    plan = { size, gap, x, y, height, labels, across };
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    canvas.style.width = `${width}px`;
    draw();
  }

  function draw() {
    const context = canvas.getContext("2d");
    if (!context) return;
    const scale = window.devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const colour = [...legend.querySelectorAll(".swatch")].map((swatch) => getComputedStyle(swatch).backgroundColor);
    const [accent, ink, soft] = ["--accent", "--ink", "--soft"].map((name) => style.getPropertyValue(name).trim());
    const search = wanted && /^[\d,\s-]+$/.test(wanted) ? ranksOf(wanted.replace(/\s/g, "")) : null;
    const words = search ? "" : wanted;
    const fitting = ranks.activities.map((text) => !words || text.toLowerCase().includes(words));
    const placed = ranks.places.map((text) => Boolean(words) && text.toLowerCase().includes(words));
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.textAlign = "center";
    context.textBaseline = "middle";
    const { size, x, y } = plan;
    let visible = 0;
    for (let i = 0; i < count; i++) {
      const rank = ranks.rank[i];
      const fits = passes(i) && (search ? rank !== null && search.has(rank)
        : fitting[ranks.activity[i]] || placed[ranks.place[i]]);
      if (fits) visible++;
      context.globalAlpha = fits ? 1 : 0.13;
      context.fillStyle = colour[facet.kinds[i]];
      context.fillRect(x[i], y[i], size, size);
      if (culprit[i]) {
        const edge = size > 10 ? 3 : 2;
        context.strokeStyle = accent;
        context.lineWidth = edge;
        context.strokeRect(x[i] + edge / 2, y[i] + edge / 2, size - edge, size - edge);
      }
      if (size >= 20) {
        context.fillStyle = facet.classes[facet.kinds[i]] === "of-missing" ? style.getPropertyValue("--paper") : "#111";
        context.font = `${size >= 30 ? 12 : 9}px system-ui, sans-serif`;
        context.fillText(rank === null ? "?" : String(rank), x[i] + size / 2, y[i] + size / 2 + 0.5);
      }
    }
    context.globalAlpha = 1;
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.fillStyle = soft;
    context.font = "11px system-ui, sans-serif";
    for (const [name, left, top] of plan.labels) context.fillText(name, left, top, 84);
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x[chosen] - 1, y[chosen] - 1, size + 2, size + 2);
    shown.textContent = visible === count ? "" : `${visible} of ${count} ranks`;
    canvas.dataset.visible = String(visible);
    canvas.dataset.chosen = String(ranks.rank[chosen] ?? ranks.names[chosen]);
  }

  /** Choose a rank and show what is known of it. @param {number} index */
  function choose(index) {
    chosen = Math.min(count - 1, Math.max(0, index));
    card.replaceChildren(...known(chosen, culprit[chosen]));
    draw();
  }

  canvas.addEventListener("click", (event) => {
    const { size, gap, x, y } = plan;
    let best = -1;
    for (let i = 0; i < count && best < 0; i++) {
      if (event.offsetX >= x[i] && event.offsetX < x[i] + size + gap && event.offsetY >= y[i] && event.offsetY < y[i] + size + gap) best = i;
    }
    if (best >= 0) choose(best);
  });
  canvas.addEventListener("keydown", (event) => {
    const below = plan.y.findIndex((top, i) => i > chosen && top > plan.y[chosen] && plan.x[i] >= plan.x[chosen]);
    let above = chosen - 1;
    while (above > 0 && !(plan.y[above] < plan.y[chosen] && plan.x[above] <= plan.x[chosen])) above--;
    /** @type {Record<string, number>} */
    const moves = {
      ArrowRight: chosen + 1, ArrowLeft: chosen - 1, ArrowDown: below < 0 ? chosen : below,
      ArrowUp: above < 0 ? chosen : above, Home: 0, End: count - 1,
    };
    if (event.key in moves) {
      choose(moves[event.key]);
      const top = plan.y[chosen];
      if (top < box.scrollTop || top + plan.size > box.scrollTop + box.clientHeight - 16) box.scrollTop = top - box.clientHeight / 2;
      event.preventDefault();
    }
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("beforeprint", draw);
  choose(chosen);
  resized(box, lay);
}

/**
 * @typedef {{title: string, names: string[], classes: string[], counts: number[], kinds: number[]}} Facet
 * Return by what ranks can be coloured: their state, or what they do, the most frequent first.
 * @param {Ranks} ranks @returns {Facet[]}
 */
function facetsOf(ranks) {
  const most = 8;
  /** @type {(title: string, names: string[], of: number[], kindOf: (name: string, place: number) => string) => Facet} */
  const facet = (title, names, of, kindOf) => {
    const counts = new Array(names.length).fill(0);
    for (const value of of) counts[value]++;
    const order = [...names.keys()].sort((one, other) => counts[other] - counts[one]);
    const shown = order.length > most ? order.slice(0, most - 1) : order;
    const place = new Map(shown.map((value, number) => [value, number]));
    const kinds = of.map((value) => place.get(value) ?? shown.length);
    const rest = order.slice(shown.length).reduce((sum, value) => sum + counts[value], 0);
    return {
      title, kinds,
      names: [...shown.map((value) => names[value]), ...(rest ? ["other"] : [])],
      classes: [...shown.map((value, number) => kindOf(names[value], number)), ...(rest ? ["kind-7"] : [])],
      counts: [...shown.map((value) => counts[value]), ...(rest ? [rest] : [])],
    };
  };
  const plain = ranks.activities.map((text) => text.replace(/ \(ranks [^)]*\)/, "").replace(/ rank \d+$/, " a rank"));
  const names = [...new Set(plain)];
  const number = new Map(names.map((name, index) => [name, index]));
  const doing = ranks.activity.map((activity) => number.get(plain[activity]) ?? 0);
  return [
    facet("by state", ranks.states, ranks.state, (name) => `of-${name}`),
    facet("by what they do", names, doing, (_, place) => `kind-${place}`),
  ];
}

/** Return the ranges of neighbours on one host. @param {number[]} hosts @returns {[number, number][]} */
function hostRuns(hosts) {
  /** @type {[number, number][]} */
  const runs = [];
  for (let i = 0, start = 0; i < hosts.length; i++) {
    if (i + 1 === hosts.length || hosts[i + 1] !== hosts[i]) { runs.push([start, i + 1]); start = i + 1; }
  }
  return runs;
}

/** Return what ranks can be filtered by: process groups, those behind in them, stacks. @returns {[string, string][]} */
function groupChoices() {
  /** @type {[string, string][]} */
  const choices = [];
  for (const [name, ranks, , entered, behind] of data.groups.slice(0, 500)) {
    if (behind) choices.push([`behind in ${name} (not in #${entered})`, behind]);
  }
  for (const [name, ranks] of data.groups.slice(0, 500)) choices.push([`process group ${name}`, ranks]);
  for (const group of data.stacks.groups) {
    if (group.ranks) choices.push([`stack: ${group.waits || inWords(group.ranks, group.count, [])} (${group.count})`, group.ranks]);
  }
  return choices;
}

/** Describe one rank. @param {number} index @param {boolean} culprit @returns {Node[]} */
function known(index, culprit) {
  const ranks = data.ranks;
  const rank = ranks.rank[index];
  const title = rank === null ? ranks.names[index] : `rank ${rank}`;
  const state = ranks.states[ranks.state[index]];
  const list = element("dl");
  /** @type {[string, string][]} */
  const rows = [
    ["state", state], ["doing", ranks.activities[ranks.activity[index]]],
    ["at", ranks.places[ranks.place[index]]], ["host", ranks.hosts[ranks.host[index]]],
    ["pid", String(ranks.pid[index] ?? "")],
  ];
  if (rank !== null) {
    const groups = data.groups.filter(([, members]) => ranksOf(members).has(rank)).slice(0, 4);
    for (const [name, , , entered, behind, unseen] of groups) {
      if (entered === null) continue;
      const how = ranksOf(behind).has(rank) ? `not in #${entered}, where others are`
        : ranksOf(unseen).has(rank) ? "nothing is recorded of it" : `has entered #${entered}`;
      rows.push(["group", `${name}: ${how}`]);
    }
  }
  for (const [name, text] of rows) {
    if (text) list.append(element("dt", "", name), element("dd", "", text));
  }
  const nodes = [element("h3", "", culprit ? `${title} — look here first` : title), list];
  const quotes = rank === null ? [] : data.evidence[rank] ?? [];
  if (quotes.length) {
    const items = quotes.slice(0, 8).map(([where, words, number]) =>
      element("li", "", element("span", "where", `${where} (${number})`), element("q", "", words)));
    nodes.push(element("h3", "", "Evidence"), element("ul", "quotes", ...items));
  }
  const stack = data.stacks.groups.find((group) => (rank === null ? group.names.includes(title) : ranksOf(group.ranks).has(rank)));
  if (stack) {
    const lines = [...stack.frames].reverse().map((number) => element("li", "mono", data.stacks.frames[number]));
    const where = stack.count > 1 ? `Stack, innermost first (${stack.count} alike)` : "Stack, innermost first";
    nodes.push(element("h3", "", where), element("ol", "", ...lines));
  }
  return nodes;
}

/* ------------------------------------------------------------------ the wait graph */

/** Draw who waits for whom, laid out by dagre. */
function waitGraph() {
  const home = document.getElementById("wait-graph");
  const { nodes, edges } = data.waits;
  if (!home || nodes.length === 0) return;
  const plane = element("div", "plane");
  home.append(element("div", "graph", plane));
  const boxes = nodes.map((node, number) => {
    const through = edges.filter((edge) => edge.source === number && node.kind === "ranks").map((edge) => nodes[edge.target].says);
    const tag = tagOf(node);
    const box = element("div", `node ${node.kind} ${node.role}${node.culprit ? " culprit" : ""}`);
    if (node.kind === "ranks") {
      box.append(element("b", "", inWords(node.ranks, node.count, node.names) + (node.count > 8 ? ` (${node.count})` : "")));
      box.style.borderLeftColor = `var(--${node.state})`;
    }
    if (!through.some((call) => node.says.includes(call))) box.append(node.says);
    if (tag) box.append(element("span", "tag", tag));
    box.title = `${node.ranks} ${node.says}`;
    return box;
  });
  plane.append(...boxes);

  /** Let dagre place the nodes. @param {string} way */
  function placed(way) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: way, nodesep: way === "TB" ? 14 : 16, ranksep: way === "TB" ? 34 : 46, marginx: 4, marginy: 6 });
    graph.setDefaultEdgeLabel(() => ({}));
    boxes.forEach((box, number) => graph.setNode(String(number), { width: box.offsetWidth, height: box.offsetHeight }));
    edges.forEach((edge) => graph.setEdge(String(edge.source), String(edge.target)));
    dagre.layout(graph);
    return graph;
  }

  /** Lay the graph out from left to right, or downwards where that fits better; else shrink it. */
  function lay() {
    plane.querySelector("svg")?.remove();
    const room = plane.parentElement?.clientWidth ?? 1000;
    let graph = placed("LR");
    if (graph.graph().width > room) {
      const down = placed("TB");
      if (down.graph().width <= room || down.graph().width < graph.graph().width / 2) graph = down;
    }
    const scale = Math.min(1, Math.max(0.55, room / graph.graph().width));
    plane.style.transform = scale < 1 ? `scale(${scale})` : "";
    boxes.forEach((box, number) => {
      const at = graph.node(String(number));
      box.style.left = `${at.x - at.width / 2}px`;
      box.style.top = `${at.y - at.height / 2}px`;
    });
    const { width, height } = graph.graph();
    plane.style.width = `${width}px`;
    plane.style.height = `${height}px`;
    plane.style.marginBottom = `${(scale - 1) * height}px`;
    plane.style.marginRight = `${(scale - 1) * width}px`;
    const svg = shape("svg", { width, height, "aria-hidden": "true" });
    const defs = shape("defs", {});
    for (const kind of ["", "circle"]) {
      const marker = shape("marker", { id: `arrow${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" });
      marker.append(shape("path", { d: "M0 0L8 4L0 8z", class: `head ${kind}` }));
      defs.append(marker);
    }
    svg.append(defs);
    const inCircle = circleEdges(nodes, edges);
    edges.forEach((edge, number) => {
      const points = graph.edge(String(edge.source), String(edge.target)).points;
      const kind = inCircle.has(number) ? "circle" : "";
      svg.append(shape("path", { d: smooth(points), class: `edge ${kind} ${edge.certain ? "" : "perhaps"}`, "marker-end": `url(#arrow${kind})` }));
    });
    plane.prepend(svg);
  }
  resized(home, lay);
  if (edges.some((edge) => !edge.certain)) home.append(element("p", "hint", "Dashed: perhaps; it is not known that they are not there."));
}

/** Say what is special about a node. @param {WaitNode} node */
function tagOf(node) {
  if (node.kind !== "ranks") return "";
  const where = { root: "waits end here", cycle: "in the circle", missing: "not there", "": "" }[node.role] ?? "";
  if (node.culprit) return where ? `${where} · look here first` : "look here first";
  return where;
}

/** Return the edges between ranks of a circle, through their calls. @param {WaitNode[]} nodes @param {WaitEdge[]} edges */
function circleEdges(nodes, edges) {
  const inside = new Set(nodes.keys());
  for (const [number, node] of nodes.entries()) if (node.kind === "ranks" && node.role !== "cycle") inside.delete(number);
  const found = new Set();
  edges.forEach((edge, number) => { if (inside.has(edge.source) && inside.has(edge.target)) found.add(number); });
  return found;
}

/** Draw a line through points, its corners rounded. @param {{x: number, y: number}[]} points */
function smooth(points) {
  const [first, ...rest] = points;
  let path = `M${first.x} ${first.y}`;
  for (let i = 0; i < rest.length - 1; i++) {
    const next = rest[i + 1], here = rest[i];
    const last = i === rest.length - 2;
    const to = last ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${here.x} ${here.y} ${to.x} ${to.y}`;
  }
  if (rest.length === 1) path += `L${rest[0].x} ${rest[0].y}`;
  return path;
}

/* ------------------------------------------------------------------ the stacks */

/**
 * @typedef {{frame: number, weight: number, count: number, culprit: boolean, stack: StackGroup|null,
 *   below: Map<string, Branch>}} Branch
 */

/** Draw the merged stacks: outermost frame on top, as wide as the ranks in it. */
function icicle() {
  const home = document.getElementById("icicle");
  const groups = data.stacks.groups;
  if (!home || groups.length === 0) return;
  const threads = [...new Set(groups.map((group) => group.thread))];
  home.append(element("p", "hint", "Outermost frame on top; a frame is as wide as the ranks in it, small groups wider than that to be seen. Your code is bold; red leads to the ranks to look at."));
  for (const thread of threads) {
    const own = groups.filter((group) => group.thread === thread);
    if (thread !== "main") home.append(element("h3", "", thread));
    const chart = element("div", "icicle");
    home.append(chart);
    const open = new Set();
    const draw = () => drawIcicle(chart, merged(own), open, draw);
    resized(home, draw);
  }
}

/** Merge stacks into a tree. @param {StackGroup[]} groups @returns {Branch} */
function merged(groups) {
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  const least = total / Math.max(6, 2 * groups.length);
  /** @type {Branch} */
  const root = { frame: -1, weight: 0, count: 0, culprit: false, stack: null, below: new Map() };
  for (const group of groups) {
    const weight = Math.max(group.count, least);
    const blamed = [...ranksOf(group.ranks)].some((rank) => culprits.has(rank));
    let branch = root;
    for (const key of [...group.frames.map(String), `leaf ${group.ranks} ${group.names.join()}`]) {
      let next = branch.below.get(key);
      if (!next) {
        next = { frame: key.startsWith("leaf") ? -1 : Number(key), weight: 0, count: 0, culprit: false, stack: null, below: new Map() };
        branch.below.set(key, next);
      }
      next.weight += weight;
      next.count += group.count;
      next.culprit ||= blamed;
      branch = next;
    }
    branch.stack = group;
    root.weight += weight;
  }
  return root;
}

/**
 * Place the frames of a tree; long runs of frames without a branch are folded until asked for.
 * @param {HTMLElement} chart @param {Branch} root @param {Set<string>} open @param {() => void} again
 */
function drawIcicle(chart, root, open, again) {
  chart.replaceChildren();
  const user = new Set(data.stacks.user);
  const row = 23;
  let deepest = 0;
  /** @type {[HTMLElement, number][]} */
  const leaves = [];
  /** @param {HTMLElement} box @param {number} left @param {number} width @param {number} depth */
  const put = (box, left, width, depth) => {
    box.style.left = `${left * 100}%`;
    box.style.width = `calc(${width * 100}% - 1px)`;
    box.style.top = `${depth * row}px`;
    chart.append(box);
    deepest = Math.max(deepest, depth);
  };
  /** @param {Branch} parent @param {number} left @param {number} depth @param {string} path */
  const descend = (parent, left, depth, path) => {
    for (const [key, first] of parent.below) {
      const width = first.weight / root.weight;
      const run = [first];
      while (run[run.length - 1].below.size === 1) run.push([...run[run.length - 1].below.values()][0]);
      const own = `${path}/${key}`;
      let at = depth;
      let folded = run.length > 9 && !open.has(own) ? run.slice(2, -5) : [];
      if (folded.length < 2) folded = [];
      for (const branch of run) {
        if (folded.includes(branch)) {
          if (branch !== folded[0]) continue;
          const more = element("button", `frame fold${branch.culprit ? " culprit" : ""}`, `… ${folded.length} frames …`);
          more.addEventListener("click", () => { open.add(own); again(); });
          put(more, left, width, at++);
          continue;
        }
        if (branch.stack) {
          const stack = branch.stack;
          const who = inWords(stack.ranks, stack.count, stack.names);
          const box = element("div", `frame leaf${branch.culprit ? " culprit" : ""}`, element("b", "", who), ` ${stack.waits}`);
          box.title = `${stack.ranks} ${stack.waits}`;
          put(box, left, width, at++);
          leaves.push([box, at - 1]);
          continue;
        }
        const text = data.stacks.frames[branch.frame];
        const box = element("div", `frame${user.has(branch.frame) ? " user" : ""}${branch.culprit ? " culprit" : ""}`, text);
        box.title = `${text} · ${branch.count} rank${branch.count > 1 ? "s" : ""}`;
        put(box, left, width, at++);
      }
      descend(run[run.length - 1], left, at, own);
      left += width;
    }
  };
  descend(root, 0, 0, "");
  const ends = leaves.map(([box, depth]) => depth * row + box.offsetHeight);
  chart.style.height = `${Math.max((deepest + 1) * row, ...ends) + 4}px`;
}

/* ------------------------------------------------------------------ calls and events in time */

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

/* ------------------------------------------------------------------ the page itself */

/** Call a function now and whenever the width of an element changes. @param {HTMLElement} box @param {() => void} lay */
function resized(box, lay) {
  let width = -1;
  const look = () => {
    if (box.clientWidth !== width) { width = box.clientWidth; lay(); }
  };
  look();
  new ResizeObserver(look).observe(box);
}

/** List the parts of the page at its top. */
function listParts() {
  const nav = document.getElementById("nav");
  for (const part of document.querySelectorAll("main > section[id]")) {
    const title = part.querySelector("h2")?.textContent ?? "";
    const number = /^finding-(\d+)$/.exec(part.id);
    const link = /** @type {HTMLAnchorElement} */ (element("a", "", number ? `Finding ${number[1]}` : title));
    link.href = `#${part.id}`;
    nav?.append(link);
  }
}

/** Put a button behind each command that copies it. */
function copyButtons() {
  for (const command of document.querySelectorAll(".command")) {
    const button = element("button", "copy", "copy");
    button.setAttribute("aria-label", `copy ${command.textContent}`);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command.textContent ?? "");
        button.textContent = "copied";
      } catch {
        getSelection()?.selectAllChildren(command);
        button.textContent = "selected";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    command.after(button);
  }
}

window.addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});

listParts();
copyButtons();
waitGraph();
icicle();
lanes();
rankMap();
