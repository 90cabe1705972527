// Light or dark, dense or roomy: by the system unless a person chose.

export type Theme = "system" | "light" | "dark";
export type Density = "roomy" | "dense";

const THEME = "punctual.theme";
const DENSITY = "punctual.density";

export function theme(): Theme {
  const chosen = localStorage.getItem(THEME);
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export function density(): Density {
  return localStorage.getItem(DENSITY) === "dense" ? "dense" : "roomy";
}

export function chooseTheme(next: Theme): void {
  localStorage.setItem(THEME, next);
  applyLook();
}

export function chooseDensity(next: Density): void {
  localStorage.setItem(DENSITY, next);
  applyLook();
}

export function applyLook(): void {
  const root = document.documentElement;
  if (theme() === "system") delete root.dataset.theme;
  else root.dataset.theme = theme();
  root.dataset.density = density();
}
