"""A report as one HTML file: opens anywhere, asks no network for anything.

* ``page``: the template filled in, with style, scripts and data inside, under a strict policy;
* ``data``: what the drawings of the page are made from, compact for 10,000 ranks;
* ``page.html.jinja``, ``style.css``: structure and looks;
* ``common.js``, ``rank_map.js``, ``wait_graph.js``, ``stacks.js``, ``lanes.js``, ``whole_page.js``:
  the drawings, with their types for ``tsc --checkJs`` in comments;
* ``dagre.min.js``: the layout of the wait graph, https://github.com/dagrejs/dagre 3.1.3 (MIT).
"""
