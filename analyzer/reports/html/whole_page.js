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

/** Make a button that copies a text. @param {string} label @param {string} text @param {Element} shown */
function copyButton(label, text, shown) {
  const button = element("button", "copy", label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      getSelection()?.selectAllChildren(shown);
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

/** Put a button behind each command, and one behind the headline for what a chat should hear. */
function copyButtons() {
  for (const command of document.querySelectorAll(".command")) {
    const button = copyButton("copy", command.textContent ?? "", command);
    button.setAttribute("aria-label", `copy ${command.textContent}`);
    command.after(button);
  }
  const title = document.querySelector("h1");
  const steps = [...document.querySelectorAll("#finding-1 .now li")].map((item) => `- ${item.textContent}`);
  const lines = [`${data.verdict.toUpperCase()}: ${title?.textContent}`, ...(steps.length ? ["Do now:", ...steps] : [])];
  if (title) document.querySelector(".facts")?.append(copyButton("copy summary", lines.join("\n"), title));
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
