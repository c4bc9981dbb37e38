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
      if (node.hosts.length) box.append(` on ${node.hosts.join(", ")}`, element("br", ""));
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
    // Where it is wider than the screen, what it leads to is seen first.
    const end = boxes.find((_, number) => nodes[number].culprit) ?? boxes.find((_, number) => nodes[number].role);
    const view = plane.parentElement;
    if (end && view) view.scrollLeft = (end.offsetLeft + end.offsetWidth / 2) * scale - view.clientWidth / 2;
  }
  resized(home, lay);
  if (edges.some((edge) => !edge.certain)) home.append(element("p", "hint", "Dashed: perhaps; it is not known that they are not there."));
}

/** Say what is special about a node. @param {WaitNode} node */
function tagOf(node) {
  if (node.kind !== "ranks") return "";
  if (node.state === "unreachable" && !node.role) return "not seen";
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
