// Zooming and moving along the offset axis. The server has drawn every mark; here only places are worked out anew, from
// the offsets that the marks carry: data-s and data-e (stretches), data-at (pins).
"use strict";
(() => {
  for (const lineage of document.querySelectorAll(".lineage")) {
    const whole = { low: Number(lineage.dataset.low), high: Number(lineage.dataset.high) };
    let view = { ...whole };
    const plot = lineage.querySelector(".plot");
    const range = lineage.querySelector(".range");
    const ticks = lineage.querySelector(".ticks");
    const percent = (offset) => ((offset - view.low) / (view.high - view.low)) * 100;
    const shown = (offset) => Math.round(offset).toLocaleString("en");

    const place = () => {
      const width = ticks.clientWidth || 1;
      for (const mark of lineage.querySelectorAll("rect[data-s]")) {
        const low = percent(Number(mark.dataset.s)), high = percent(Number(mark.dataset.e));
        // Far outside the view nothing is gained by exact places, and browsers round huge ones.
        const from = Math.max(-50, low), to = Math.min(150, high);
        mark.setAttribute("visibility", to < -49 || from > 149 ? "hidden" : "visible");
        mark.setAttribute("x", `${from}%`);
        mark.setAttribute("width", `${Math.max(150 / width, to - from)}%`);
      }
      for (const pin of lineage.querySelectorAll("[data-at]")) {
        const at = percent(Number(pin.dataset.at));
        pin.setAttribute("visibility", at < -5 || at > 105 ? "hidden" : "visible");
        pin.setAttribute("x", `${Math.min(200, Math.max(-100, at))}%`);
      }
      for (const label of lineage.querySelectorAll("text[data-s]")) {
        const low = Math.max(0, percent(Number(label.dataset.s))), high = Math.min(100, percent(Number(label.dataset.e)));
        const fits = ((high - low) / 100) * width > Number(label.dataset.chars) * 7 + 6;
        label.setAttribute("visibility", fits ? "visible" : "hidden");
        label.setAttribute("x", `${(low + high) / 2}%`);
      }
      const rough = (view.high - view.low) / Math.max(2, Math.floor(width / 110));
      const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
      const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough));
      ticks.replaceChildren();
      for (let tick = Math.ceil(view.low / step) * step; tick <= view.high; tick += step) {
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
        const at = percent(tick);
        for (const [name, value] of [["x1", `${at}%`], ["x2", `${at}%`], ["y1", 0], ["y2", 5]]) line.setAttribute(name, value);
        text.setAttribute("x", `${at}%`);
        text.setAttribute("y", 18);
        const pixels = (at / 100) * width;
        text.setAttribute("class", pixels < 30 ? "first" : width - pixels < 30 ? "last" : "");
        text.textContent = shown(tick);
        ticks.append(line, text);
      }
      range.textContent = `offsets [${shown(view.low)}, ${shown(view.high)})`;
    };

    const look = (low, high) => {
      const least = Math.min(4, whole.high - whole.low);
      const width = Math.min(whole.high - whole.low, Math.max(least, high - low));
      low = Math.min(Math.max(whole.low, (low + high - width) / 2), whole.high - width);
      view = { low, high: low + width };
      place();
    };
    const zoom = (factor, around = (view.low + view.high) / 2) =>
      look(around - (around - view.low) * factor, around + (view.high - around) * factor);
    const move = (share) => {
      const by = Math.max(whole.low - view.low, Math.min(whole.high - view.high, (view.high - view.low) * share));
      look(view.low + by, view.high + by);
    };
    const DO = {
      in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => look(whole.low, whole.high),
      focus: (button) => look(Number(button.dataset.start), Number(button.dataset.end)),
    };
    const KEYS = { "+": DO.in, "=": DO.in, "-": DO.out, ArrowLeft: DO.left, ArrowRight: DO.right, 0: DO.all, Home: DO.all };

    lineage.querySelector(".controls").hidden = false;
    lineage.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) DO[button.dataset.do](button);
    });
    plot.addEventListener("keydown", (event) => {
      if (KEYS[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        KEYS[event.key]();
      }
    });
    const offsetAt = (event) => {
      const box = ticks.getBoundingClientRect();
      return view.low + ((event.clientX - box.left) / box.width) * (view.high - view.low);
    };
    plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return; // a plain wheel scrolls the page
      event.preventDefault();
      zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, offsetAt(event));
    }, { passive: false });
    plot.addEventListener("dblclick", (event) => zoom(0.5, offsetAt(event)));
    let from = null;
    plot.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.target.closest(".band")) from = event.clientX;
    });
    addEventListener("pointermove", (event) => {
      if (from === null || Math.abs(event.clientX - from) < 2) return;
      plot.classList.add("dragging");
      move((from - event.clientX) / ticks.clientWidth);
      from = event.clientX;
    });
    const release = () => {
      from = null;
      plot.classList.remove("dragging");
    };
    addEventListener("pointerup", release);
    addEventListener("pointercancel", release);
    addEventListener("resize", place);
    place();
  }
})();
