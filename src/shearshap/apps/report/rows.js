(() => {
  const home = document.querySelector("[data-rows]");
  if (!home) return;
  const index = JSON.parse(document.querySelector(".rows-index").textContent);
  const blocks = [...document.querySelectorAll(".rows-block")];
  const read = new Map();
  const count = index.labels.length;
  const several = index.outputs.length > 1;
  const numeric = index.labels.every((label) => label !== "" && isFinite(label));
  const FEW = 6, LINES = 12;

  const { breakable, element } = charts;

  /* Numbers as elsewhere on the page. */

  const own = (number) => digits.format(number, digits.decimals(Math.abs(number)));

  /* One row of an output: its steps in the units of the prediction. */

  const rowOf = (row) => {
    const number = Math.floor(row / index.block);
    if (!read.has(number)) read.set(number, JSON.parse(blocks[number].textContent));
    const block = read.get(number);
    return { block, steps: block.rows[row % index.block], aside: block.aside[row % index.block] || [] };
  };
  const stepsOf = (row, output) => {
    const { block, steps: every } = rowOf(row);
    const [others, gap, ...flat] = every[output];
    const unit = index.units[output];
    const steps = [];
    for (let at = 0; at < flat.length; at += 4) {
      const [player, value, cell, margin] = flat.slice(at, at + 4);
      steps.push({ name: index.features[player], cell: block.texts[cell], size: value * unit, margin: margin * unit });
    }
    const left = index.features.length - steps.length;
    if (left) steps.push({ name: `${left} others`, cell: "", size: others * unit, margin: 0 });
    const largest = Math.max(...steps.map((step) => Math.abs(step.size)), Math.abs(gap * unit));
    const places = digits.decimals(largest);
    const smallest = digits.smallestShown(largest, places);
    if (Math.abs(gap * unit) >= smallest && gap) steps.push({ name: "unexplained", cell: "", size: gap * unit, margin: 0, grey: true });
    return { steps, places, smallest, largest };
  };

  /* The chart of a row: each bar starts where the one above it ends. */

  const chartOf = (row, output) => {
    const { steps, places, smallest, largest } = stepsOf(row, output);
    const base = index.bases[output][row];
    const prediction = index.predictions[output][row];
    const lines = [{ name: "base value", number: digits.end(base, largest), point: base }];
    let at = base;
    for (const { name, cell, size, margin, grey } of steps) {
      const end = at + size;
      const half = margin >= smallest ? ` ± ${digits.format(margin, places)}` : "";
      lines.push({
        name, detail: cell ? `= ${cell}` : "", number: digits.format(size, places, true) + half, bar: [at, end],
        kind: grey ? "sizes" : size < 0 ? "lowers" : "raises", whisker: margin > 0 ? [end - margin, end + margin] : undefined,
      });
      at = end;
    }
    lines.push({ name: "prediction", number: digits.end(prediction, largest), point: prediction });

    const chart = element("div", { className: "chart", role: "group", ariaLabel: `${index.label} ${index.labels[row]}, from base value to prediction` });
    charts.draw(chart, { lines, unit: index.shown[output], rule: base });
    return chart;
  };

  /* What is shown: an output, an order, a search, a page of rows, and one row. */

  let output = 0, key = "order", down = false, page = 0, order = [], chosen = -1;

  const highest = index.labels.map((_, row) => {
    let best = 0;
    index.outputs.forEach((_, other) => { if (index.predictions[other][row] > index.predictions[best][row]) best = other; });
    return best;
  });
  const KEYS = {
    order: (a, b) => a - b,
    label: (a, b) => (numeric ? index.labels[a] - index.labels[b] : index.labels[a].localeCompare(index.labels[b], undefined, { numeric: true })),
    prediction: (a, b) => index.predictions[output][a] - index.predictions[output][b],
    highest: (a, b) => index.outputs[highest[a]].localeCompare(index.outputs[highest[b]]),
  };

  const search = element("input", { type: "search", placeholder: `Find by ${index.label === "row" ? "row number" : index.label}`, ariaLabel: `Find by ${index.label}` });
  const counter = element("span", { className: "counter" });
  counter.setAttribute("aria-live", "polite");
  const which = element("select", { ariaLabel: "Output" }, ...index.outputs.map((name) => element("option", {}, name)));
  const title = element("h3", {});
  const place = element("div", {});
  const aside = element("p", { className: "note" });
  const body = element("tbody");
  const before = element("button", { type: "button", ariaLabel: "Rows before", title: "Rows before" }, "←");
  const after = element("button", { type: "button", ariaLabel: "Rows after", title: "Rows after" }, "→");
  const range = element("span", { className: "counter" });

  const heads = [["label", index.label], ["prediction", "prediction"]];
  if (index.classes) heads.push(["highest", "highest class"]);
  const buttons = heads.map(([name, text]) => {
    const button = element("button", { type: "button", title: "Sort" }, text);
    button.addEventListener("click", () => {
      down = key === name ? !down : name === "prediction";
      key = name;
      page = 0;
      arrange();
    });
    return button;
  });
  const cells = buttons.map((button, at) => {
    const cell = element("th", { className: at === 1 ? "number" : "text" }, button);
    cell.setAttribute("scope", "col");
    return cell;
  });
  const last = element("th", { className: "text" }, "what moved it most");
  last.setAttribute("scope", "col");

  const showRow = (row) => {
    chosen = row;
    const number = own(index.predictions[output][row]);
    const name = index.label === "row" ? `Row ${index.labels[row]}` : `${index.label} ${index.labels[row]}`;
    title.replaceChildren(...breakable(name), `: ${index.shown[output]} ${number}`);
    place.replaceChildren(chartOf(row, output));
    const { block, aside: texts } = rowOf(row);
    aside.textContent = index.aside.length ? `Not given to the model: ${index.aside.map((column, at) => `${column} = ${block.texts[texts[at]]}`).join(", ")}` : "";
    aside.hidden = !index.aside.length;
    for (const line of body.children) line.classList.toggle("chosen", Number(line.dataset.row) === row);
  };

  const lineOf = (row) => {
    const { steps, places } = stepsOf(row, output);
    const button = element("button", { type: "button" }, ...breakable(index.labels[row]));
    const label = element("th", { className: "text" }, button);
    label.setAttribute("scope", "row");
    const made = element("tr", {}, label, element("td", { className: "number" }, own(index.predictions[output][row])));
    made.dataset.row = row;
    if (index.classes) made.append(element("td", { className: "text" }, index.outputs[highest[row]]));
    const moved = element("td", { className: "text moved" });
    steps.slice(0, 3).filter((step) => step.name !== undefined && Number(step.size.toPrecision(3)) !== 0).forEach((step) => {
      const cell = step.cell ? [" ", element("small", {}, `= ${step.cell}`)] : [];
      const amount = element("b", { className: step.size < 0 ? "lowers" : "raises" }, digits.format(step.size, places, true));
      moved.append(element("span", { className: "step" }, ...breakable(step.name), ...cell, " ", amount), " ");
    });
    made.append(moved);
    made.addEventListener("click", () => {
      showRow(row);
      if (title.getBoundingClientRect().top < 0) title.scrollIntoView({ block: "start" });
    });
    return made;
  };

  const showPage = () => {
    const from = page * LINES;
    const rows = order.slice(from, from + LINES);
    body.replaceChildren(...rows.map(lineOf));
    before.disabled = page === 0;
    after.disabled = from + LINES >= order.length;
    range.textContent = order.length ? `${(from + 1).toLocaleString("en")}–${(from + rows.length).toLocaleString("en")} of ${order.length.toLocaleString("en")}` : "no rows";
    if (rows.length && !rows.includes(chosen)) showRow(rows[0]);
    else if (rows.length) showRow(chosen);
  };

  const arrange = () => {
    const words = search.value.trim().toLowerCase();
    order = [];
    for (let row = 0; row < count; row++) if (!words || index.labels[row].toLowerCase().includes(words)) order.push(row);
    if (key !== "order") order.sort((a, b) => (down ? -1 : 1) * KEYS[key](a, b) || a - b);
    if (words) order.sort((a, b) => (index.labels[b].toLowerCase() === words) - (index.labels[a].toLowerCase() === words));
    counter.textContent = words ? `${order.length.toLocaleString("en")} found` : "";
    buttons.forEach((button, at) => {
      const mine = heads[at][0] === key;
      cells[at].setAttribute("aria-sort", mine ? (down ? "descending" : "ascending") : "none");
      button.dataset.arrow = mine ? (down ? "↓" : "↑") : "↕";
    });
    showPage();
  };

  const pickOutput = (number) => {
    output = number;
    which.selectedIndex = number;
    page = 0;
    arrange();
  };

  search.addEventListener("input", () => { page = 0; arrange(); });
  which.addEventListener("change", () => {
    document.dispatchEvent(new CustomEvent("pick", { detail: { label: "Show", count: index.outputs.length, number: which.selectedIndex } }));
  });
  document.addEventListener("pick", ({ detail }) => {
    if (detail.label === "Show" && detail.count === index.outputs.length) pickOutput(detail.number);
  });
  before.addEventListener("click", () => { page -= 1; showPage(); });
  after.addEventListener("click", () => { page += 1; showPage(); });

  const longest = index.labels.reduce((most, label) => Math.max(most, label.length), 0);
  home.style.setProperty("--letters", Math.min(longest, 16));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...cells, last)), body);
  const scroller = element("div", { className: "scroller" }, table);
  const tools = element("div", { className: "picker tools" });
  if (several) tools.append(element("label", {}, "Show ", which));
  if (count > FEW) tools.append(search, counter);
  const pager = element("div", { className: "picker pager" }, before, range, after);
  pager.hidden = count <= LINES;
  home.replaceChildren(element("figure", { className: "panels one" }, title, place, aside));
  if (count > 1) home.append(tools, scroller, pager);
  else if (several) home.prepend(tools);
  key = count > FEW ? "prediction" : "order";
  down = key === "prediction";
  arrange();
})();
