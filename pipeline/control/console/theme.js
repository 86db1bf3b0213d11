// Sets the theme before anything is drawn. Without a choice the system's preference counts.
"use strict";
const chosenTheme = localStorage.getItem("pmdns.theme");
if (chosenTheme === "dark" || chosenTheme === "light") {
  document.documentElement.dataset.theme = chosenTheme;
}
