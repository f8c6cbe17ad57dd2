"use strict";
/* Numbers as people read them, by the rules of result/text.py. */
const digits = (() => {
  // A half is rounded to the even digit, as in Python; toFixed and toExponential round it up.
  const even = (exact, rounded, places) => {
    const cut = exact.indexOf(".") + 1 + places;
    const [beyond, power] = exact.slice(cut).split("e");
    const kept = exact.slice(0, places ? cut : cut - 1);
    const isHalf = /^50*$/.test(beyond) && "02468".includes(kept.at(-1));
    return isHalf ? kept + (power ? "e" + power : "") : rounded;
  };
  const fixed = (number, places) => even(number.toFixed(100), number.toFixed(places), places);

  /** Return a number as Python's format "g" writes it, with so many digits. */
  const general = (number, count) => {
    if (number === 0) return "0";
    const text = even(number.toExponential(100), number.toExponential(count - 1), count - 1);
    const [mantissa, power] = text.split("e").map(Number);
    if (power >= -4 && power < count) return String(Number(text));
    return mantissa + (power < 0 ? "e-" : "e+") + String(Math.abs(power)).padStart(2, "0");
  };

  const decimals = (largest) => {
    if (largest === 0) return 0;
    if (!(largest >= 1e-4 && largest < 1e7)) return null;
    return Math.max(0, 2 - Math.floor(Math.log10(largest)));
  };
  const format = (number, places, sign = false) => {
    let text = places === null ? general(number, 3) : fixed(number, places);
    if (!/[1-9]/.test(text)) text = text.replace("-", ""); // no -0
    if (places !== null) text = text.replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ",");
    return (sign && text[0] !== "-" ? "+" : "") + text.replace(/-/g, "−");
  };
  const smallestShown = (number, places) => (places === null ? 1e-3 * Math.abs(number) : 0.5 * 10 ** -places);
  /** Return a base value or prediction: three digits of its own, or as many decimals as the steps between them. */
  const end = (number, largestStep) => {
    if (Math.abs(number) < 1e-9 * largestStep) number = 0; // up to rounding
    const size = Math.abs(number);
    const steps = decimals(largestStep);
    let own = decimals(size);
    if (own === null && steps !== null && size >= 1 && size < 1e9) own = 0;
    if (own === null || steps === null) return format(number, own);
    const before = number ? Math.floor(Math.log10(size)) + 1 : 1;
    return format(number, Math.max(own, Math.min(steps, 9 - Math.max(1, before))));
  };
  const tick = (number) => general(number, 6).replace(/-/g, "−");
  return { decimals, end, format, smallestShown, tick };
})();
