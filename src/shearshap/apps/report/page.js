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

  const { element } = charts;
  for (const grid of document.querySelectorAll("[data-pick]")) {
    const panels = [...grid.querySelectorAll(".panel")];
    const titles = panels.map((panel) => panel.querySelector("h4").textContent);
    const list = element("select", {}, ...titles.map((title) => element("option", {}, title)));
    const before = element("button", { type: "button", ariaLabel: "Previous", title: "Previous" }, "←");
    const after = element("button", { type: "button", ariaLabel: "Next", title: "Next" }, "→");
    const show = (number) => {
      list.selectedIndex = number;
      panels.forEach((panel, place) => { panel.hidden = place !== number; });
      before.disabled = number === 0;
      after.disabled = number === panels.length - 1;
    };
    // lists of the same label, such as those of outputs, show the same
    const pick = (number) => {
      const detail = { label: grid.dataset.pick, count: panels.length, number };
      document.dispatchEvent(new CustomEvent("pick", { detail }));
    };
    document.addEventListener("pick", ({ detail }) => {
      if (detail.label === grid.dataset.pick && detail.count === panels.length) show(detail.number);
    });
    list.addEventListener("change", () => pick(list.selectedIndex));
    before.addEventListener("click", () => pick(list.selectedIndex - 1));
    after.addEventListener("click", () => pick(list.selectedIndex + 1));
    const label = element("label", {}, grid.dataset.pick + " ", list);
    grid.before(element("div", { className: "picker" }, label, before, after));
    show(0);
  }

  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const details = target && target.querySelector(":scope > .folded");
    if (details) details.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
  });
})();
