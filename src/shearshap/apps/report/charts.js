/* Charts: lines of words, marks on a common scale, and a number. An element with data-chart holds its lines as JSON. */
const charts = (() => {
  const STEPS = [1, 2, 2.5, 5, 10]; // distances between round numbers, times a power of ten
  const MARGIN = 0.04; // of the scale's length, left free at either end
  const HEIGHT = 18, SWARM_HEIGHT = 32; // CSS pixels of a line, and of one with dots
  const FEW_DOTS = 40; // in a line, which are drawn larger
  const ACROSS = 1000; // steps along a line that dots stand on, whatever its width
  const JOINT = /(?<=[_\-./:,;=+&|)\]])(?=[\p{L}\p{N}])|(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])|(?<=[\p{L}\p{N}_])(?=[(\[])/u;

  const element = (name, properties, ...content) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...content);
    return made;
  };
  const svg = (name, attributes, ...content) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
    made.append(...content);
    return made;
  };
  const breakable = (text) => text.split(JOINT).flatMap((part, at) => (at ? [element("wbr"), part] : [part]));
  const even = (numbers) => numbers.filter((_, place) => place % 2 === 0);

  const scaleOf = (lines, rule) => {
    const numbers = lines.flatMap((line) => [
      ...(line.bar ?? []), ...(line.whisker ?? []), ...(line.point === undefined ? [] : [line.point]),
      ...Object.values(line.dots ?? {}).flatMap(even),
    ]);
    if (rule !== null) numbers.push(rule);
    const low = numbers.reduce((a, b) => Math.min(a, b)), high = numbers.reduce((a, b) => Math.max(a, b));
    const length = high - low || Math.max(Math.abs(high), 1);
    const start = low - MARGIN * length, end = high + MARGIN * length;
    const part = (number) => (number - start) / (end - start);
    return { low: start, high: end, part, place: (number) => `${(100 * part(number)).toFixed(2)}%` };
  };
  const ticksOf = ({ low, high }) => {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * STEPS.find((times) => power * times >= rough * (1 - 1e-12));
    const ticks = [];
    for (let n = Math.ceil(low / step); n <= Math.floor(high / step); n++) ticks.push(Number((n * step).toPrecision(6)));
    return ticks;
  };

  /* Marks of a line, the last on top. */

  const upright = (kind, x, y1, y2) => svg("line", { class: kind, x1: x, x2: x, y1, y2 });
  const barOf = (line, scale, height) => {
    const [left, right] = [...line.bar].sort((a, b) => a - b);
    const width = `${(100 * (scale.part(right) - scale.part(left))).toFixed(2)}%`;
    return svg("rect", { class: line.kind ?? "sizes", x: scale.place(left), width, y: 2, height: height - 4, rx: 1.5 });
  };
  const whiskerOf = (whisker, scale, middle) => {
    const [low, high] = whisker.map(scale.place);
    return [
      svg("line", { class: "whisker", x1: low, x2: high, y1: middle, y2: middle }),
      upright("whisker", low, middle - 3, middle + 3),
      upright("whisker", high, middle - 3, middle + 3),
    ];
  };
  // one path for each colour: strokes of no length with round ends, which stay round
  const dotsOf = (dots, scale, height) => {
    const middle = height / 2;
    const paths = Object.entries(dots).map(([colour, numbers]) => {
      let d = "";
      for (let at = 0; at < numbers.length; at += 2) {
        d += `M${Math.round(ACROSS * scale.part(numbers[at]))} ${(middle + numbers[at + 1] * (middle - 3)).toFixed(1)}h0`;
      }
      return svg("path", { stroke: colour, d });
    });
    const count = Object.values(dots).flat().length / 2;
    const attributes = { viewBox: `0 0 ${ACROSS} ${height}`, preserveAspectRatio: "none", width: "100%", height };
    return svg("svg", { class: count <= FEW_DOTS ? "dots few" : "dots", ...attributes }, ...paths);
  };
  const lineOf = (line, scale, rule) => {
    const height = line.dots ? SWARM_HEIGHT : HEIGHT;
    const track = svg("svg", { class: "track", height, "aria-hidden": "true" });
    if (rule !== null) track.append(upright("rule", scale.place(rule), 0, height));
    if (line.bar) track.append(barOf(line, scale, height));
    if (line.whisker) track.append(...whiskerOf(line.whisker, scale, height / 2));
    if (line.point !== undefined) track.append(svg("circle", { class: "point", cx: scale.place(line.point), cy: height / 2, r: 4 }));
    if (line.dots) track.append(dotsOf(line.dots, scale, height));
    for (const [mean] of line.means ?? []) track.append(upright("mean", scale.place(mean), 3, height - 3));
    const name = element("span", { className: "name" }, ...breakable(line.name));
    if (line.detail) name.append(" ", element("small", {}, ...breakable(line.detail)));
    const made = element("div", { className: "line" }, name, track, element("span", { className: "amount" }, line.number ?? ""));
    if (line.means) made.append(element("span", { className: "means" }, ...line.means.flatMap(([, words]) => [element("span", {}, words), " "])));
    return made;
  };

  const draw = (home, { lines, unit, rule }) => {
    const scale = scaleOf(lines, rule);
    const ticks = element("div", { className: "ticks" });
    for (const tick of ticksOf(scale)) {
      const mark = element("span", {}, digits.tick(tick));
      mark.style.left = scale.place(tick);
      ticks.append(mark);
    }
    const axis = element("div", { className: "line scale", ariaHidden: "true" }, ticks);
    home.replaceChildren(...lines.map((line) => lineOf(line, scale, rule)), axis, element("p", { className: "unit" }, unit));
  };
  for (const home of document.querySelectorAll("[data-chart]")) {
    draw(home, JSON.parse(home.querySelector("script").textContent));
  }
  return { breakable, draw, element };
})();
