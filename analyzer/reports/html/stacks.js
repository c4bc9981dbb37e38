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
    /** @type {Set<string>} */
    const open = new Set();
    /** @type {number[]} */
    let through = [];
    const all = element("button", "", "show all stacks");
    all.hidden = true;
    all.addEventListener("click", () => zoom([]));
    chart.before(all);
    /** Show only the stacks that go through some frames. @param {number[]} frames */
    const zoom = (frames) => {
      through = frames;
      all.hidden = frames.length === 0;
      draw();
    };
    const draw = () => {
      const shown = own.filter((group) => through.every((frame, depth) => group.frames[depth] === frame));
      drawIcicle(chart, merged(shown), open, draw, zoom);
    };
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
    root.count += group.count;
  }
  return root;
}

/**
 * Place the frames of a tree; long runs of frames without a branch are folded until asked for.
 * A frame that only some of the stacks go through can be clicked, to see those alone.
 * @param {HTMLElement} chart @param {Branch} root @param {Set<string>} open @param {() => void} again
 * @param {(frames: number[]) => void} zoom
 */
function drawIcicle(chart, root, open, again, zoom) {
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
  /**
   * @param {Branch} parent @param {number} left @param {number} depth @param {string} path
   * @param {number[]} above the frames on the way here
   */
  const descend = (parent, left, depth, path, above) => {
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
        const part = branch.count < root.count;
        const box = element(part ? "button" : "div", `frame${user.has(branch.frame) ? " user" : ""}${branch.culprit ? " culprit" : ""}`, text);
        const way = [...above, ...run.slice(0, run.indexOf(branch) + 1).map((one) => one.frame)];
        if (part) box.addEventListener("click", () => zoom(way));
        box.title = `${text} · ${branch.count} rank${branch.count > 1 ? "s" : ""}`;
        put(box, left, width, at++);
      }
      descend(run[run.length - 1], left, at, own, [...above, ...run.map((one) => one.frame)]);
      left += width;
    }
  };
  descend(root, 0, 0, "", []);
  const ends = leaves.map(([box, depth]) => depth * row + box.offsetHeight);
  chart.style.height = `${Math.max((deepest + 1) * row, ...ends) + 4}px`;
}
