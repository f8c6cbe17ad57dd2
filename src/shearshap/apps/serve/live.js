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
    other: null, // the row to compare with: its number, id, cells and explanation
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
    if (answer.ok) return answer.json();
    const { error, where } = await answer.json().catch(() => ({})); // of a proxy it may be anything
    throw Object.assign(new Error(error || answer.statusText), { status: answer.status, where });
  };

  const explain = (row, signal) => ask("explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ rows: [row], budget: Number($("budget").value) }),
    signal,
  });

  // What went wrong

  /** Say a sentence above the row, with what to do again and details, if there are any; none: be silent. */
  const say = (text, { again = null, details = "" } = {}) => {
    $("problem").hidden = !text;
    $("problem-text").textContent = text;
    $("again").hidden = !again;
    $("again").onclick = again;
    $("problem-details").textContent = details;
    $("problem-details").parentElement.hidden = !details;
  };

  /** Return what an error means to the people who use the page, and what they can do. */
  const inWords = ({ status, where, id }) => {
    if (!status) return "The service does not answer. Check your connection, then try again.";
    if (status === 503) return "The service is busy. Try again in a moment.";
    if (status === 408 || status === 504) return "This took too long. Choose fewer evaluations, or try again later.";
    if (status !== 422) return "Something went wrong in the service. Try again; if it happens again, tell whoever runs it.";
    if (id !== undefined) return "The model has no prediction for row “" + id + "”. Choose another row.";
    const name = (where || "").replace(/^rows\[0\]\.?/, "");
    return cells.has(name)
      ? "The model does not accept this value for “" + name + "”. Enter another one."
      : "The model has no prediction for this row. Change a value back, or undo all changes.";
  };

  /** Say what went wrong, until something works; then again() is offered. */
  const complain = (error, again) => {
    if (error.name === "AbortError") return;
    if (error.status === 401) {
      say(sessionStorage.getItem("token") ? "This token is not valid for this service." : "");
      $("login").hidden = false;
      $("main").hidden = true;
      $("token").focus();
    } else {
      say(inWords(error), { again: error.status === 422 ? null : again, details: error.status ? error.message : "" });
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
    soon();
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
      else if (text === "") refuse(feature.name, "enter some text");
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
      amount: part("amount"), other: part("other"), otherAmount: part("beside"), mean: part(""), size: part("size"),
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
      const beside = element("small", { className: "beside", hidden: true });
      fields.append(element("div", { className: "cell" }, ...parts), hint, beside);
      cells.set(column.name, { feature: column, field: parts.at(-1), hint, beside, set, line });
    }
    const track = element("div", { className: "track" }, line.zero, line.bar, line.other, line.was, line.whisker);
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
    $("export").disabled = unread.size > 0;
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
    const other = state.other && state.other.answer.explanations[0];
    const k = state.output;
    const values = now.values[k];
    const errors = now.standard_errors && now.standard_errors[k];
    // tracks only grow while cells change, so that bars can be compared
    const reach = values.map((_, place) => 2 * (errors && errors[place] || 0));
    const lowest = values.map((value, place) => value - reach[place]);
    const highest = values.map((value, place) => value + reach[place]);
    const others = other ? other.values[k] : [];
    state.low = Math.min(state.low, ...lowest, ...was.values[k], ...others);
    state.high = Math.max(state.high, ...highest, ...was.values[k], ...others);
    const { low, high } = state;
    const widest = Math.max(-low, high) || 1;
    const at = (value) => 3 + 94 * (value - low) / (high - low || 1);
    const stretch = (bar, from, to) => {
      bar.style.left = at(Math.min(from, to)) + "%";
      bar.style.width = at(Math.max(from, to)) - at(Math.min(from, to)) + "%";
    };

    answer.features.forEach((name, place) => {
      const line = lines.get(name);
      const value = values[place];
      const error = errors && errors[place];
      const before = was.values[k][place];
      line.zero.style.left = at(0) + "%";
      stretch(line.bar, 0, value);
      line.bar.classList.toggle("down", value < 0);
      line.was.hidden = Math.abs(before - value) < (high - low) / 200;
      line.was.style.left = at(before) + "%";
      const hasError = 2 * error >= digits.smallestShown(value, digits.decimals(widest));
      line.whisker.hidden = !hasError;
      stretch(line.whisker, value - 2 * error, value + 2 * error);
      line.amount.replaceChildren(signed(value, widest));
      if (hasError) line.amount.append(" ", element("small", {}, "± " + plain(2 * error, widest)));
      line.other.hidden = !other;
      if (other) {
        stretch(line.other, 0, others[place]);
        line.otherAmount.textContent = signed(others[place], widest);
        line.amount.append(line.otherAmount);
      }
    });

    drawPrediction(now.prediction[k], now.base_value[k], was.prediction[k], other && other.prediction[k]);
    $("other-key").hidden = !other;
    $("other-key").lastElementChild.textContent = other && state.other.id;
    cells.forEach(({ beside }, column) => {
      beside.hidden = !other;
      beside.textContent = other && state.other.id + ": " + said(state.other.row[column]);
    });
    save();
    $("spent").textContent = answer.method + ", " + counted(now.evaluations, "model evaluation") + " for this row";
  };

  const drawPrediction = (now, base, was, other) => {
    // from the lowest to the highest prediction of all rows
    const [least, most] = state.means.prediction_ranges[state.output];
    const low = Math.min(least, now, base, was);
    const high = Math.max(most, now, base, was);
    const size = Math.max(Math.abs(low), Math.abs(high), 1e-12);
    const at = (value) => 100 * (value - low) / (high - low || 1);
    $("prediction").textContent = plain(now, size);
    const moved = Math.abs(now - was) > 1e-9 * size;
    $("moved").textContent = moved ? signed(now - was, size) + " by your changes" : "";

    $("other-prediction").textContent = other === null ? "" : state.other.id + ": " + plain(other, size);

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
    if (!unread.size) timer = setTimeout(update, PAUSE);
  };

  const update = async () => {
    if (pending) pending.abort();
    const own = pending = new AbortController();
    document.body.classList.add("busy");
    try {
      const answer = await explain(state.row, own.signal);
      if (own !== pending) return;
      say("");
      document.body.classList.remove("stale");
      draw(state.latest = answer);
    } catch (error) {
      if (own !== pending) return;
      document.body.classList.add("stale");
      complain(error, update);
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

  /** Load a row and its explanation. */
  const load = async (number) => {
    const { rows: [row], ids: [id] } = await ask("rows?limit=1&offset=" + number);
    const answer = await explain(row).catch((error) => { throw Object.assign(error, { id }); });
    return { number, id, row, answer };
  };

  const pick = async (number, changes = {}) => {
    stop();
    state.number = number;
    $("before").disabled = number === 0;
    $("after").disabled = number === state.about.rows - 1;
    try {
      const { id, row, answer: first } = await load(number);
      if (number !== state.number) return;
      say("");
      $("row").value = state.id = id;
      state.original = row;
      state.row = { ...row, ...changes };
      state.first = state.latest = first;
      state.low = state.high = 0;
      state.about.features.forEach(({ name }) => setCell(name, state.row[name]));
      if (Object.keys(changes).length) await update();
      else draw(first);
    } catch (error) {
      complain(error, () => pick(number, changes));
    }
  };

  /** Show the values of another row beside those of this one; null: of none. */
  const compare = async (number) => {
    try {
      state.other = number === null ? null : await load(number);
      $("other").value = state.other ? state.other.id : "";
      state.low = state.high = 0;
      draw(state.latest);
    } catch (error) {
      complain(error, () => compare(number));
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

  /** Call then() with the number of the row that a text means; fail with a sentence if there is none. */
  const search = async (text, then) => {
    try {
      const [row] = await found(text, 1);
      if (row) await then(row.number);
      else {
        say("No row matches “" + text + "”.");
        $("row").value = state.id;
        $("other").value = state.other ? state.other.id : "";
      }
    } catch (error) {
      complain(error, () => search(text, then));
    }
  };

  // The state of the page in its address, so that a link leads back to it

  const save = () => {
    const { about: { features, outputs }, row, original, output, other } = state;
    const changed = features.map(({ name }) => name).filter((name) => row[name] !== original[name]);
    const link = new URLSearchParams({ row: state.id });
    if (outputs.length > 1) link.set("output", outputs[output]);
    if (other) link.set("compare", other.id);
    if (changed.length) link.set("changes", JSON.stringify(row, changed));
    history.replaceState(null, "", "#" + link);
  };

  const restore = async () => {
    const link = new URLSearchParams(location.hash.slice(1));
    const { outputs, features } = state.about;
    const usual = outputs.length === 2 ? 1 : 0; // of two classes, the second is the one of interest
    const named = outputs.indexOf(link.get("output"));
    $("output").value = named < 0 ? usual : named;
    choose(Number($("output").value));
    const numberOf = async (name) => {
      const id = link.get(name);
      const [row] = id === null ? [] : await found(id, 1);
      return row && row.id === id ? row.number : null;
    };
    const row = await numberOf("row");
    const other = await numberOf("compare");
    let changes = {};
    let isWhole = row !== null || !link.has("row");
    try {
      changes = JSON.parse(link.get("changes") || "{}");
    } catch {
      isWhole = false;
    }
    const known = features.filter(({ name }) => row !== null && Object.hasOwn(changes, name));
    await pick(row || 0, Object.fromEntries(known.map(({ name }) => [name, changes[name]])));
    if (other !== null || state.other) await compare(other);
    if (!isWhole) say("The link is incomplete, or its row is not in this service.");
  };

  // The values on the page as a file

  /** Return whether a spreadsheet would run a cell; the patterns are those of files that are written. */
  const runs = (cell) => new RegExp(FORMULA).test(cell) && !new RegExp(NUMBER).test(cell);

  const download = () => {
    const { latest: { features, explanations: [own] }, output, row } = state;
    const errors = own.standard_errors && own.standard_errors[output];
    const table = [["feature", "in this row", "value", "standard error"], ["base value", "", own.base_value[output], ""]];
    features.forEach((name, place) => {
      const inside = lines.get(name).columns.map((column) => row[column] === null ? "" : row[column]).join("; ");
      table.push([name, inside, own.values[output][place], errors ? errors[place] : ""]);
    });
    table.push(["prediction", "", own.prediction[output], ""]);
    const safe = (cell) => runs(cell) ? "'" + cell : String(cell);
    const quoted = (cell) => /[",\n\r]/.test(cell) ? '"' + cell.replaceAll('"', '""') + '"' : cell;
    const text = table.map((cells) => cells.map(safe).map(quoted).join(",") + "\r\n").join("");
    element("a", { href: "data:text/csv;charset=utf-8," + encodeURIComponent(text), download: "row " + state.id + ".csv" }).click();
  };

  const reset = () => {
    state.row = { ...state.original };
    state.about.features.forEach(({ name }) => setCell(name, state.row[name]));
    soon();
  };

  const choose = (output) => {
    state.output = output;
    state.low = state.high = 0;
    const name = state.about.outputs[output];
    $("prediction-label").textContent = name === "output" ? "Prediction" : "Prediction: " + name;
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
      $("lines").replaceChildren();
      for (const name of state.means.features) {
        const columns = Object.hasOwn(about.groups, name) ? about.groups[name] : [name];
        lines.set(name, makeLine(name, columns.map((column) => about.features.find((each) => each.name === column))));
      }
      await restore();
    } catch (error) {
      complain(error, start);
    }
  };

  $("before").addEventListener("click", () => pick(state.number - 1));
  $("after").addEventListener("click", () => pick(state.number + 1));
  for (const field of [$("row"), $("other")]) {
    field.addEventListener("focus", () => field.select());
    field.addEventListener("input", () => list(field));
  }
  $("row").addEventListener("change", () => {
    if ($("row").value) search($("row").value, pick);
    else $("row").value = state.id;
  });
  $("other").addEventListener("change", () => {
    if ($("other").value) search($("other").value, compare);
    else compare(null);
  });
  window.addEventListener("hashchange", () => restore().catch((error) => complain(error, start)));
  $("export").addEventListener("click", download);
  $("output").addEventListener("change", () => choose(Number($("output").value)));
  $("budget").addEventListener("change", async () => {
    state.first = await explain(state.original).catch(() => state.first);
    if (state.other) await compare(state.other.number);
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
