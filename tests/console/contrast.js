// Every text against what is painted behind it, by WCAG's formula: those below 4.5, with their ratio.
() => {
  const channel = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const parse = (c) => {
    const [r, g, b, a = 1] = c.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const light = (c) => 0.2126 * channel(c.r) + 0.7152 * channel(c.g) + 0.0722 * channel(c.b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.a === 1) return c;
    }
    return { r: 255, g: 255, b: 255 };
  };
  const apart = "svg, [hidden], .hidden, .skip, details:not([open]) > :not(summary)";
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
    if (!own || e.closest(apart) || !e.getClientRects().length) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push([ratio.toFixed(2), e.tagName, e.className, e.textContent.trim().slice(0, 40)]);
  }
  return bad;
}
