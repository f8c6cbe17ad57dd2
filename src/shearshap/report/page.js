"use strict";
(() => {
  const drawn = document.querySelectorAll(".plot .series");
  const buttons = [];
  let chosen = null;

  const choose = (name) => {
    chosen = name === chosen ? null : name;
    for (const series of drawn) {
      series.classList.toggle("dimmed", chosen !== null && !series.classList.contains("series-" + chosen));
    }
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.series === chosen));
    }
  };

  for (const item of document.querySelectorAll(".key li")) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.series = item.dataset.series;
    button.title = "Highlight in every figure";
    button.setAttribute("aria-pressed", "false");
    button.append(...item.childNodes);
    button.addEventListener("click", () => choose(button.dataset.series));
    item.append(button);
    buttons.push(button);
  }

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
  });
})();
