// What stands where on a page of `chaos/timeline`, as the browser drew it; `tests/support/looking.py` judges it.
(() => {
  const box = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return [left, top, right, bottom];
  };
  const isShown = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
    element.getBoundingClientRect().width > 0 && element.getBoundingClientRect().height > 0;
  const all = (root, selector) => [...root.querySelectorAll(selector)].filter(isShown);
  const paper = getComputedStyle(document.body).backgroundColor;

  // The colour that lies under the middle of an SVG text.
  const under = (element) => {
    const [left, top, right, bottom] = box(element);
    for (const each of document.elementsFromPoint((left + right) / 2, (top + bottom) / 2)) {
      const style = getComputedStyle(each);
      if (each.matches('svg rect') && style.fillOpacity === '1') return style.fill;
    }
    return paper;
  };
  const text = (element) => {
    const style = getComputedStyle(element), svg = element.closest('svg');
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    return {
      text: element.textContent.trim(), box: box(element), size: parseFloat(style.fontSize) * scale,
      ink: svg ? style.fill : style.color, ground: svg ? under(element) : paper, kind: element.className.baseVal ?? '',
    };
  };
  const bar = (element) => ({
    kind: element.classList[1], box: box(element), title: element.querySelector('title')?.textContent ?? '',
  });
  const lane = (element) => ({
    kind: element.dataset.kind, name: element.dataset.name, bars: all(element, '.bar').map(bar),
  });
  const picture = (svg) => ({
    box: box(svg), texts: all(svg, 'text').map(text), lanes: all(svg, '.lane').map(lane),
    bands: all(svg, '.band').map(box), rate: all(svg, '.rate').map(box),
    median: all(svg, '.median').map(box), longest: all(svg, '.longest').map(box),
  });
  const verdict = document.getElementById('verdict');
  return {
    width: innerWidth, pageWidth: document.documentElement.scrollWidth, height: Math.ceil(document.body.getBoundingClientRect().bottom) + 24,
    paper, title: document.title,
    verdict: verdict && isShown(verdict) ? text(verdict) : null,
    words: all(document, 'h1, h2, p, td, li').map(text),
    pictures: all(document, 'svg').map(picture),
  };
})()
