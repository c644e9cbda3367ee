// Draws each [data-chart] with uPlot, in the page's colours, again when the size or the colour scheme changes.
"use strict";
(() => {
  const LOOKS = { critical: "--bad", warning: "--odd", info: "--known", line: "--link" };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // A custom property holds light-dark(...): only a real property of an element is computed to the colour in use.
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const draw = (place) => {
    const data = JSON.parse(place.dataset.chart);
    place.textContent = "";
    if (!data.at.length) return;
    const axis = { stroke: colour("--faint"), font: "11px system-ui", ticks: { show: false } };
    const grid = { stroke: colour("--line"), width: 1 };
    const lone = data.at.length === 1;
    const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");
    const latest = (u) => u.legend.show && u.setLegend({ idx: data.at.length - 1 }, false);
    new uPlot({
      width: Math.max(120, place.clientWidth),
      height: Number(place.dataset.height),
      tzDate: utc,
      padding: [8, 34, 0, 0], // On the right: half a date, of the newest point.
      cursor: { drag: { x: true, y: false } },
      legend: { show: Number(place.dataset.height) > 100, live: true },
      hooks: { ready: [latest], setCursor: [(u) => u.cursor.left < 0 && latest(u)] },
      scales: { x: { range: lone ? (u, a) => [a - 43200, a + 43200] : undefined }, y: { range: (u, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [
        { ...axis, size: 24, space: 70, grid: { show: false }, values: "{YYYY}-{MM}-{DD}" },
        { ...axis, size: 44, space: 26, grid, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7, 1e8, 1e9] },
      ],
      series: [
        { label: "captured", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
        ...data.series.map((s, at) => ({
          label: s.label,
          stroke: colour(LOOKS[s.look]),
          width: 1.8,
          dash: [[], [6, 3], [2, 3]][at],
          points: { show: data.at.length < 40, size: 5, fill: colour(LOOKS[s.look]) },
          value: (u, v) => (v == null ? "–" : v.toLocaleString("en")),
        })),
      ],
    }, [data.at, ...data.series.map((s) => s.values)], place);
  };
  const all = () => document.querySelectorAll("[data-chart]").forEach(draw);
  all();
  dark.addEventListener("change", all);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) {
      width = innerWidth;
      all();
    }
  });
})();
