(() => {
  const SHOWN = 25; // features, before all are asked for
  const LISTED = 50; // rows that a search lists
  const PAUSE = 40; // milliseconds after a change, in which others may follow

  const $ = (id) => document.getElementById(id);
  const element = (name, properties, ...content) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...content);
    return made;
  };

  const state = {
    about: null, // the model, its features and limits
    means: null, // (k, p) mean |value|
    number: 0, // of the row
    id: "", // of the row
    original: null, // the row as it was loaded
    row: null, // as it is now
    first: null, // the explanation of the row as it was loaded
    output: 0,
    low: 0, // the values that the tracks hold
    high: 0,
    all: false, // whether all features are shown
  };
  const lines = new Map(); // feature's name -> its parts on the page
  const cells = new Map(); // column's name -> its feature, how to set its cell, and its parts on the page
  const unread = new Map(); // column's name -> what to enter in its cell, which has no value now
  let pending = null;
  let timer = 0;

  // Asking the service

  const ask = async (path, options = {}) => {
    const headers = { ...options.headers };
    const token = sessionStorage.getItem("token");
    if (token) headers.Authorization = "Bearer " + token;
    const answer = await fetch(path, { ...options, headers });
    const content = await answer.json();
    if (answer.ok) return content;
    const error = new Error(content.error || "the service answered " + answer.status);
    error.status = answer.status;
    throw error;
  };

  const explain = (row, signal) => ask("explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ rows: [row], budget: Number($("budget").value) }),
    signal,
  });

  const say = (text) => {
    $("problem").hidden = !text;
    $("problem").textContent = text;
  };

  const complain = (error) => {
    if (error && error.name === "AbortError") return;
    const wantsToken = Boolean(error) && error.status === 401;
    $("login").hidden = !wantsToken;
    say(error ? (error.status ? error.message : "The service cannot be reached.") : "");
    if (wantsToken) {
      $("problem").hidden = !sessionStorage.getItem("token");
      $("problem").textContent = "That is not the token of this service.";
      $("main").hidden = true;
      $("token").focus();
    }
  };

  // Numbers as people read them

  const plain = (number, size) => digits.format(number, digits.decimals(size));
  const signed = (number, size) => digits.format(number, digits.decimals(size), true);
  const counted = (count, word) => count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");
  const short = (number) => number.toLocaleString("en", { maximumSignificantDigits: 6 });
  const said = (cell) => cell === null ? "missing" : String(cell);

  // The cells of a row

  const change = (name, cell) => {
    unread.delete(name);
    state.row[name] = cell;
    mark(name);
    if (!unread.size) soon();
  };

  /** Ask for another text in a cell; until then the values on the page are not those of the row. */
  const refuse = (name, words) => {
    stop();
    unread.set(name, words);
    mark(name);
  };

  const setCell = (name, cell) => {
    unread.delete(name);
    cells.get(name).set(cell);
    mark(name);
  };

  const numberCell = (feature) => {
    const whole = feature.kind === "integer";
    const step = whole ? 1 : "any";
    const field = element("input", { type: "number", step, ariaLabel: feature.name, required: !feature.missing });
    const slider = element("input", { type: "range", min: feature.minimum, max: feature.maximum, step: whole ? 1 : (feature.maximum - feature.minimum) / 500 || 1, ariaLabel: feature.name + ", slider", tabIndex: -1 });
    slider.addEventListener("input", () => {
      const number = Number(slider.value);
      field.value = whole ? number : Number(number.toPrecision(4));
      change(feature.name, Number(field.value));
    });
    field.addEventListener("input", () => {
      const cell = field.value === "" ? null : Number(field.value);
      if (cell !== null) slider.value = cell;
      if (field.validity.valid) change(feature.name, cell);
      else refuse(feature.name, whole ? "enter a whole number" : "enter a number");
    });
    const set = (cell) => {
      field.value = cell === null ? "" : cell;
      field.placeholder = feature.missing ? "missing" : "";
      slider.value = cell === null ? feature.typical : cell;
    };
    const hasRange = feature.minimum < feature.maximum;
    return { parts: hasRange ? [slider, field] : [field], set };
  };

  const chosenCell = (feature, cells) => {
    const list = element("select", { ariaLabel: feature.name });
    const add = (cell) => {
      list.append(element("option", { value: JSON.stringify(cell) }, said(cell)));
    };
    cells.forEach(add);
    if (feature.missing) add(null);
    list.addEventListener("change", () => change(feature.name, JSON.parse(list.value)));
    const set = (cell) => {
      const text = JSON.stringify(cell);
      if (![...list.options].some((option) => option.value === text)) add(cell);
      list.value = text;
    };
    return { parts: [list], set };
  };

  const writtenCell = (feature) => {
    const field = element("input", { type: "text", ariaLabel: feature.name, spellcheck: false });
    const isTime = feature.kind === "time";
    field.addEventListener("input", () => {
      const text = field.value.trim();
      if (text === "" && feature.missing) change(feature.name, null);
      else if (isTime && isNaN(Date.parse(text))) refuse(feature.name, "enter a time, such as " + feature.typical);
      else if (text === "") refuse(feature.name, "enter a text");
      else change(feature.name, isTime ? text : field.value);
    });
    const set = (cell) => {
      field.value = cell === null ? "" : cell;
      field.placeholder = feature.missing ? "missing" : "";
    };
    return { parts: [field], set };
  };

  const cellOf = (feature) => {
    if (feature.kind === "number" || feature.kind === "integer") return numberCell(feature);
    if (feature.kind === "boolean") return chosenCell(feature, [true, false]);
    return feature.categories ? chosenCell(feature, feature.categories) : writtenCell(feature);
  };

  // The lines, one for each feature

  /** Make the line of a feature, which has a cell for each of its columns. */
  const makeLine = (feature, columns) => {
    const part = (className) => element("div", { className });
    const back = element("button", { type: "button", hidden: true });
    const line = {
      back, columns: columns.map(({ name }) => name),
      zero: part("zero"), was: part("was"), bar: part("bar"), whisker: part("whisker"),
      amount: part("amount"), mean: part(""), size: part("size"),
    };
    back.addEventListener("click", () => {
      for (const column of line.columns) {
        cells.get(column).set(state.original[column]);
        change(column, state.original[column]);
      }
    });
    const name = element("div", { className: "name" }, element("span", {}, feature), back);
    const fields = element("div", { className: "fields" });
    for (const column of columns) {
      const { parts, set } = cellOf(column);
      if (columns.length > 1) fields.append(element("small", {}, column.name));
      const hint = element("small", { className: "hint", ariaLive: "polite", hidden: true });
      fields.append(element("div", { className: "cell" }, ...parts), hint);
      cells.set(column.name, { feature: column, field: parts.at(-1), hint, set, line });
    }
    const track = element("div", { className: "track" }, line.zero, line.bar, line.was, line.whisker);
    const mean = element("div", { className: "mean" }, line.mean);
    line.element = element("div", { className: "line" }, name, fields, track, line.amount, mean, line.size);
    line.element.dataset.feature = feature;
    return line;
  };

  /** Show what is to be said about a cell, and how its feature's line differs from the row loaded. */
  const mark = (name) => {
    const { feature, field, hint, line } = cells.get(name);
    hint.textContent = unread.get(name) || outside(feature, state.row[name]);
    hint.hidden = !hint.textContent;
    field.ariaInvalid = unread.has(name);
    document.body.classList.toggle("stale", unread.size > 0);

    const isChanged = (column) => unread.has(column) || state.row[column] !== state.original[column];
    const differs = line.columns.some(isChanged);
    line.element.classList.toggle("changed", differs);
    line.back.hidden = !differs;
    line.back.textContent = "back to " + line.columns.map((column) => said(state.original[column])).join(", ");
    $("reset").disabled = !state.about.features.some((each) => isChanged(each.name));
  };

  /** Return a warning if a number lies outside those of the rows loaded: the model may not know such rows. */
  const outside = ({ minimum, maximum }, cell) => {
    const isOutside = cell !== null && minimum !== null && (cell < minimum || cell > maximum);
    return isOutside ? "▲ outside the data: " + short(minimum) + " to " + short(maximum) : "";
  };

  /** Put the lines into the order of the global view, and show its bars. */
  const arrange = () => {
    const means = state.means.mean_absolute_values[state.output];
    const largest = Math.max(...means) || 1;
    const order = means.map((_, place) => place).sort((a, b) => means[b] - means[a]);
    order.forEach((place, rank) => {
      const line = lines.get(state.means.features[place]);
      line.mean.style.width = 100 * means[place] / largest + "%";
      line.size.textContent = plain(means[place], largest);
      line.element.hidden = !state.all && rank >= SHOWN;
      $("lines").append(line.element);
    });
    $("more").hidden = state.all || order.length <= SHOWN;
    $("more").textContent = "Show all " + order.length + " features";
  };

  // The explanation

  const draw = (answer) => {
    const now = answer.explanations[0];
    const was = state.first.explanations[0];
    const k = state.output;
    const values = now.values[k];
    const errors = now.standard_errors && now.standard_errors[k];
    // tracks only grow while cells change, so that bars can be compared
    const reach = values.map((_, place) => 2 * (errors && errors[place] || 0));
    const lowest = values.map((value, place) => value - reach[place]);
    const highest = values.map((value, place) => value + reach[place]);
    state.low = Math.min(state.low, ...lowest, ...was.values[k]);
    state.high = Math.max(state.high, ...highest, ...was.values[k]);
    const { low, high } = state;
    const widest = Math.max(-low, high) || 1;
    const at = (value) => 3 + 94 * (value - low) / (high - low || 1);

    answer.features.forEach((name, place) => {
      const line = lines.get(name);
      const value = values[place];
      const error = errors && errors[place];
      const before = was.values[k][place];
      line.zero.style.left = at(0) + "%";
      line.bar.style.left = at(Math.min(0, value)) + "%";
      line.bar.style.width = at(Math.max(0, value)) - at(Math.min(0, value)) + "%";
      line.bar.classList.toggle("down", value < 0);
      line.was.hidden = Math.abs(before - value) < (high - low) / 200;
      line.was.style.left = at(before) + "%";
      line.whisker.hidden = !error;
      line.whisker.style.left = at(value - 2 * error) + "%";
      line.whisker.style.width = at(value + 2 * error) - at(value - 2 * error) + "%";
      line.amount.replaceChildren(signed(value, widest));
      if (error) line.amount.append(" ", element("small", {}, "± " + plain(2 * error, widest)));
    });

    drawPrediction(now.prediction[k], now.base_value[k], was.prediction[k]);
    $("spent").textContent = answer.method + ", " + counted(now.evaluations, "model evaluation") + " for this row";
  };

  const drawPrediction = (now, base, was) => {
    // from the lowest to the highest prediction of all rows
    const [least, most] = state.means.prediction_ranges[state.output];
    const low = Math.min(least, now, base, was);
    const high = Math.max(most, now, base, was);
    const size = Math.max(Math.abs(low), Math.abs(high), 1e-12);
    const at = (value) => 100 * (value - low) / (high - low || 1);
    $("prediction").textContent = plain(now, size);
    const moved = Math.abs(now - was) > 1e-9 * size;
    $("moved").textContent = moved ? signed(now - was, size) + " by your changes" : "";

    const [, step, baseMark, wasMark, nowMark] = $("way").children;
    step.style.left = Math.min(at(base), at(now)) + "%";
    step.style.width = Math.abs(at(now) - at(base)) + "%";
    step.classList.toggle("down", now < base);
    const place = (mark, value, text) => {
      mark.style.left = at(value) + "%";
      mark.classList.toggle("left", at(value) < 15);
      mark.classList.toggle("right", at(value) > 85);
      if (text) mark.firstElementChild.textContent = text;
    };
    place(baseMark, base, "base value " + plain(base, size));
    place(nowMark, now);
    place(wasMark, was, "was");
    wasMark.hidden = !moved;
    wasMark.firstElementChild.hidden = Math.abs(at(was) - at(base)) < 18;
  };

  // What happens

  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(update, PAUSE);
  };

  const update = async () => {
    if (pending) pending.abort();
    const own = pending = new AbortController();
    document.body.classList.add("busy");
    try {
      const answer = await explain(state.row, own.signal);
      if (own !== pending) return;
      complain(null);
      draw(state.latest = answer);
    } catch (error) {
      if (own === pending) complain(error);
    } finally {
      if (own === pending) document.body.classList.remove("busy");
    }
  };

  /** Stop asking about the cells of the row before. */
  const stop = () => {
    clearTimeout(timer);
    if (pending) pending.abort();
    pending = null;
    document.body.classList.remove("busy");
  };

  const pick = async (number) => {
    stop();
    state.number = number;
    $("before").disabled = number === 0;
    $("after").disabled = number === state.about.rows - 1;
    try {
      const { rows: [row], ids: [id] } = await ask("rows?limit=1&offset=" + number);
      const first = await explain(row);
      if (number !== state.number) return;
      complain(null);
      $("row").value = state.id = id;
      state.original = row;
      state.row = { ...row };
      state.first = state.latest = first;
      state.low = state.high = 0;
      state.about.features.forEach(({ name }) => setCell(name, row[name]));
      draw(first);
    } catch (error) {
      complain(error);
    }
  };

  /** Return the rows whose ids hold a text, the best match first. */
  const found = async (text, limit) => {
    const { rows } = await ask("ids?" + new URLSearchParams({ search: text, limit }));
    return rows;
  };

  /** List the ids that a field's text may mean, as it is typed. */
  const list = async (field) => {
    const text = field.value;
    const rows = await found(text, LISTED).catch(() => []);
    if (text === field.value) $("found").replaceChildren(...rows.map(({ id }) => element("option", { value: id })));
  };

  const search = async () => {
    const text = $("row").value;
    if (!text) {
      $("row").value = state.id;
      return;
    }
    try {
      const [row] = await found(text, 1);
      if (row) await pick(row.number);
      else say("No row matches “" + text + "”.");
    } catch (error) {
      complain(error);
    }
  };

  const reset = () => {
    state.row = { ...state.original };
    state.about.features.forEach(({ name }) => setCell(name, state.row[name]));
    soon();
  };

  const choose = (output) => {
    state.output = output;
    state.low = state.high = 0;
    $("prediction-label").textContent = state.about.outputs.length > 1 ? "Prediction: " + state.about.outputs[output] : "Prediction";
    arrange();
    if (state.latest) draw(state.latest);
  };

  const budgets = ({ minimum, default: usual, maximum }) => {
    const wanted = [usual / 4, usual / 2, usual, 2 * usual, 4 * usual, 10 * usual].map(Math.round);
    return wanted.filter((each) => each === usual || (each >= minimum && each <= maximum));
  };

  const start = async () => {
    try {
      const about = await ask("about");
      state.about = about;
      state.means = await ask("global");
      $("login").hidden = true;
      $("main").hidden = false;
      document.title = about.model;
      $("title").textContent = about.model;
      $("facts").textContent = counted(about.rows, "row") + ", " + counted(state.means.features.length, "feature") + "; compared with " + about.background;
      $("global-title").textContent = "Mean |value| in " + counted(state.means.rows, "row");
      $("row-label").textContent = about.id_column || "Row";
      $("output").replaceChildren(...about.outputs.map((name, value) => element("option", { value }, name)));
      $("output-field").hidden = about.outputs.length === 1;
      $("budget").replaceChildren(...budgets(about.budget).map((value) => element("option", { value, selected: value === about.budget.default }, value.toLocaleString("en"))));
      $("notes").replaceChildren(...about.notes.map((note) => element("li", {}, note)));
      for (const name of state.means.features) {
        const columns = Object.hasOwn(about.groups, name) ? about.groups[name] : [name];
        lines.set(name, makeLine(name, columns.map((column) => about.features.find((each) => each.name === column))));
      }
      state.output = about.outputs.length === 2 ? 1 : 0; // of two classes, the second is the one of interest
      $("output").value = state.output;
      choose(state.output);
      await pick(0);
    } catch (error) {
      complain(error);
    }
  };

  $("before").addEventListener("click", () => pick(state.number - 1));
  $("after").addEventListener("click", () => pick(state.number + 1));
  $("row").addEventListener("focus", () => $("row").select());
  $("row").addEventListener("input", () => list($("row")));
  $("row").addEventListener("change", search);
  $("output").addEventListener("change", () => choose(Number($("output").value)));
  $("budget").addEventListener("change", async () => {
    state.first = await explain(state.original).catch(() => state.first);
    soon();
  });
  $("reset").addEventListener("click", reset);
  $("more").addEventListener("click", () => { state.all = true; arrange(); });
  $("login").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", $("token").value);
    start();
  });
  start();
})();
