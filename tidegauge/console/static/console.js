// What every page shares: the tooltip of marks, the search key, copying a command, forms that send themselves.
"use strict";
(() => {
  const tip = document.getElementById("tip");
  const show = (mark, x, y) => {
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 4))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18}px`;
  };
  const marked = (event) => event.target instanceof Element && event.target.closest("[data-tip]");
  document.addEventListener("pointermove", (event) => {
    const mark = marked(event);
    if (mark) show(mark, event.clientX, event.clientY);
    else tip.hidden = true;
  });
  document.addEventListener("focusin", (event) => {
    const mark = marked(event);
    if (mark && mark.matches(":focus-visible")) {
      const box = mark.getBoundingClientRect();
      show(mark, Math.max(box.left, 0), box.bottom - 12);
    } else tip.hidden = true;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") tip.hidden = true;
    const typing = event.target instanceof Element && event.target.closest("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      document.getElementById("search").focus();
    }
  });
  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
  const search = document.getElementById("search");
  const suggested = document.getElementById("suggested");
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const typed = search.value.trim();
      if (typed.length < 2) return suggested.replaceChildren();
      const answer = await fetch(`${search.dataset.suggestions}?q=${encodeURIComponent(typed)}`);
      if (!answer.ok || search.value.trim() !== typed) return;
      const names = new Set((await answer.json()).rows.map((row) => row.name));
      suggested.replaceChildren(...[...names].slice(0, 10).map((name) => new Option("", name)));
    }, 200);
  });
  const run = document.getElementById("run");
  if (run) run.addEventListener("change", () => run.form.submit());
})();
