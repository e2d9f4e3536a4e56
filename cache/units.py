"""Map the spellings of a unit to one name."""

from __future__ import annotations

# Symbols and names of the SI, of common non-SI units and of currencies; the first of each line
# stands for all.
_UNITS = """
% percent pct percentage
° degree degrees
celsius °C ℃ C centigrade
fahrenheit °F ℉ F
kelvin K kelvins
$ dollar dollars
€ euro euros eur
£ gbp sterling
¥ yen jpy
₹ rupee rupees inr
¢ cent cents
usd
ns nanosecond nanoseconds
µs μs us microsecond microseconds
ms msec millisecond milliseconds
s sec secs second seconds
min mins minute minutes
h hr hrs hour hours
day days
wk week weeks
month months
yr yrs year years
am
pm
nm nanometer nanometers nanometre nanometres
µm μm micrometer micrometers micrometre micrometres
mm millimeter millimeters millimetre millimetres
cm centimeter centimeters centimetre centimetres
m meter meters metre metres
km kilometer kilometers kilometre kilometres
inch inches
ft foot feet
yd yard yards
mi mile miles
mg milligram milligrams
g gram grams
kg kilogram kilograms kilo kilos
ton tons
tonne tonnes
oz ounce ounces
lb lbs
pound pounds
ml milliliter milliliters millilitre millilitres
l liter liters litre litres
gallon gallons
acre acres
hectare hectares
bit bits
byte bytes
kB kb kilobyte kilobytes
MB mb megabyte megabytes
GB gb gigabyte gigabytes
TB tb terabyte terabytes
Kb kilobit kilobits
Mb megabit megabits
Gb gigabit gigabits
KiB kib
MiB mib
GiB gib
V volt volts
A amp amps ampere amperes
mA
W watt watts
kW kw kilowatt kilowatts
MW megawatt megawatts
kWh kwh
mAh mah
Hz hz hertz
kHz khz
MHz mhz
GHz ghz
J joule joules
cal calorie calories
kcal
Pa pascal pascals
bar
psi
mph
kph kmh
x times
"""
_UNIT_OF = {form: line.split()[0] for line in _UNITS.split("\n") if line for form in line.split()}


def unit_of(spelling: str) -> str | None:
    """Return the one name of a unit, or None for a word that is not a known unit.

    A symbol is taken as written first ("Mb" is a megabit), then without regard to case
    ("mb" and "gb" are bytes, as people type them).
    """
    return _UNIT_OF.get(spelling) or _UNIT_OF.get(spelling.lower())
