/**
 * A program for a browser: the texts of its page whose contrast is less than WCAG AA asks for, with the ratio.
 *
 * 4.5 to 1, or 3 to 1 for large text. Colours are painted on a canvas and read back, so that every notation is understood.
 */
export const faintTexts = `(() => {
  const pen = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const paint = (colours) => {
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
    }
    return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const light = (colours) => {
    const [r, g, b] = paint(colours).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const backgrounds = (element) => {
    const chain = [];
    for (let it = element; it; it = it.parentElement) chain.unshift(getComputedStyle(it).backgroundColor);
    return ['Canvas', ...chain];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const faint = [];
  while (texts.nextNode()) {
    const { parentElement: element, textContent } = texts.currentNode;
    if (!textContent.trim() || !element.checkVisibility()) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const behind = backgrounds(element);
    const [dark, bright] = [light(behind), light([...behind, color])].sort((a, b) => a - b);
    const ratio = (bright + 0.05) / (dark + 0.05);
    const size = parseFloat(fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) faint.push(textContent.trim() + ' ' + ratio.toFixed(2));
  }
  return faint;
})()`;
