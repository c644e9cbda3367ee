// A lineage as the console's page draws it, as one SVG file: the element .lineage in, text out. Every shape is the
// page's own, with the style and the place that the browser gave it; only what a still picture does not need is left.
(lineage) => {
  const NS = "http://www.w3.org/2000/svg";
  // Style -> the value that needs no attribute.
  const OF_SHAPES = {
    fill: "rgb(0, 0, 0)", "fill-opacity": "1", stroke: "none", "stroke-width": "1px", "stroke-opacity": "1",
    "stroke-dasharray": "none", "stroke-linejoin": "miter", opacity: "1", visibility: "visible",
  };
  const OF_TEXT = { ...OF_SHAPES, "font-size": "", "font-weight": "400", "text-anchor": "start", "paint-order": "normal" };
  const MARGIN = 12;
  const whole = lineage.getBoundingClientRect();
  const plot = lineage.querySelector(".plot"), legend = lineage.querySelector(".legend");
  const top = plot.getBoundingClientRect().top;
  const place = (box) => ({ x: box.left - whole.left + MARGIN, y: box.top - top + MARGIN });
  const short = (number) => String(Math.round(number * 10) / 10);

  const styled = (original) => {
    const copy = document.createElementNS(NS, original.localName);
    for (const { name, value } of original.attributes)
      if (!/^(data-|aria-|role|tabindex|class|style|focusable)/.test(name)) copy.setAttribute(name, value);
    const computed = getComputedStyle(original);
    const style = original.localName === "text" ? OF_TEXT : ["rect", "path", "line"].includes(original.localName) ? OF_SHAPES : {};
    for (const [name, needless] of Object.entries(style)) {
      const value = computed.getPropertyValue(name).replaceAll('"', "");
      if (value === needless) copy.removeAttribute(name);
      else copy.setAttribute(name, value);
    }
    if (original.localName === "text") copy.textContent = original.textContent;
    else copy.append(...[...original.children].map(styled));
    return copy;
  };

  // What the page says in HTML, line by line as the browser broke it.
  const written = (element) => {
    const lines = [], walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.parentElement.closest("svg")) continue;
      for (const word of node.data.matchAll(/\S+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const box = range.getBoundingClientRect(), last = lines.at(-1);
        if (last && last.node === node && Math.abs(last.box.top - box.top) < 2) last.words.push(word[0]);
        else lines.push({ node, box, words: [word[0]] });
      }
    }
    return lines.map(({ node, box, words }) => {
      const text = document.createElementNS(NS, "text"), computed = getComputedStyle(node.parentElement);
      const { x, y } = place(box);
      text.setAttribute("x", short(x));
      text.setAttribute("y", short(y + box.height * 0.78));
      text.setAttribute("fill", computed.color);
      text.setAttribute("font-size", computed.fontSize);
      if (Number(computed.fontWeight) > 400) text.setAttribute("font-weight", computed.fontWeight);
      text.textContent = words.join(" ");
      return text;
    });
  };

  const picture = document.createElementNS(NS, "svg");
  const width = whole.width + 2 * MARGIN, height = legend.getBoundingClientRect().bottom - top + 2 * MARGIN;
  picture.setAttribute("xmlns", NS);
  picture.setAttribute("viewBox", `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`);
  picture.setAttribute("font-family", "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif");
  const title = document.createElementNS(NS, "title"), paper = document.createElementNS(NS, "rect");
  title.textContent = plot.getAttribute("aria-label").split(".")[0];
  for (const [name, value] of [["width", "100%"], ["height", "100%"], ["fill", "#fff"]]) paper.setAttribute(name, value);
  picture.append(title, paper, styled(document.querySelector("svg.patterns defs")));
  for (const svg of [...plot.querySelectorAll(".lane > svg"), ...legend.querySelectorAll("li > svg")]) {
    const copy = styled(svg), box = svg.getBoundingClientRect(), { x, y } = place(box);
    for (const [name, value] of Object.entries({ x, y, width: box.width, height: box.height })) copy.setAttribute(name, short(value));
    if (svg.classList.contains("ticks")) copy.setAttribute("overflow", "visible");
    picture.append(copy);
  }
  for (const head of [...plot.querySelectorAll(".lane-head"), ...legend.querySelectorAll("li")]) picture.append(...written(head));
  return new XMLSerializer().serializeToString(picture).replaceAll("><", ">\n<") + "\n";
}
