// What scrolls can be reached with the keyboard.
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) box.tabIndex = 0;
});
