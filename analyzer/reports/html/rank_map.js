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
        if (labelled) labels.push([shortName(ranks.hosts[ranks.host[start]], Math.max(columns * step, 84)), left, top - 4]);
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
    for (const [name, left, top] of plan.labels) context.fillText(name, left, top);
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x[chosen] - 1, y[chosen] - 1, size + 2, size + 2);
    const left = data.count > count ? ` (of ${data.count}: those that neither wait nor run, and the first of the others)` : "";
    shown.textContent = visible === count && !left ? "" : `${visible} of ${count} ranks${left}`;
    canvas.dataset.visible = String(visible);
    canvas.dataset.chosen = String(ranks.rank[chosen] ?? ranks.names[chosen]);
  }

  /** Choose a rank and show what is known of it. @param {number} index */
  function choose(index) {
    chosen = Math.min(count - 1, Math.max(0, index));
    card.replaceChildren(...known(chosen, culprit[chosen]));
    draw();
  }

  function bringIntoView() {
    const top = plan.y[chosen];
    if (top < box.scrollTop || top + plan.size > box.scrollTop + box.clientHeight - 16) box.scrollTop = top - box.clientHeight / 2;
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
      bringIntoView();
      event.preventDefault();
    }
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("beforeprint", draw);
  choose(chosen);
  resized(box, lay);
  bringIntoView();
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

/** Cut the name of a host to some pixels: without its domain, its end rather than its start. @param {string} name @param {number} room */
function shortName(name, room) {
  const plain = /^[\d.:]+$/.test(name) ? name : name.split(".")[0];
  const most = Math.max(6, Math.floor(room / 6.4));
  return plain.length > most ? `…${plain.slice(1 - most)}` : plain;
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
