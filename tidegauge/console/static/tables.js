// Long tables: sorted by a click on a column's head, and only the rows that hold what is typed.
"use strict";
(() => {
  const valueOf = (row, at) => row.cells[at].dataset.value ?? row.cells[at].textContent.trim();
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      const isNumber = head.classList.contains("number");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const isDown = before === null ? isNumber : before === "ascending"; // of numbers the largest are wanted first
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        const sign = isDown ? -1 : 1;
        const order = (a, b) => (isNumber ? Number(a) - Number(b) : a.localeCompare(b));
        const rows = [...table.tBodies[0].rows].sort((a, b) => sign * order(valueOf(a, at), valueOf(b, at)));
        table.tBodies[0].append(...rows);
      });
    });
  }
  for (const input of document.querySelectorAll("input[data-filters]")) {
    const table = document.getElementById(input.dataset.filters);
    const told = input.parentElement.querySelector("[role=status]");
    input.parentElement.hidden = false;
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      const rows = [...table.tBodies[0].rows];
      for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      const left = rows.filter((row) => !row.hidden).length;
      told.textContent = wanted ? `${left} of ${rows.length} ${table.dataset.rows}` : "";
    });
  }
})();
